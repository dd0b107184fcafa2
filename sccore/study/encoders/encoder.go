package encoders

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/hbollon/go-edlib"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// Config is the part that all configurations of cells share; they embed it.
type Config struct {
	Encoder Encoder `json:"encoder"`
}

// OmitPaths omits the path of the encoder's file and the run that has left it there: the digest identifies it.
func (c *Config) OmitPaths() { c.Encoder.Weights, c.Encoder.Run = "", "" }

func (c *Config) encoder() *Encoder { return &c.Encoder }

// encoderOf returns the encoder of a configuration that embeds [Config].
func encoderOf[C any](config *C) *Encoder {
	return any(config).(interface{ encoder() *Encoder }).encoder()
}

// Encoder says where a cell's encoder comes from. It is part of configurations.
type Encoder struct {
	Row          string `json:"row"`
	Architecture string `json:"architecture"` // Empty for weights that --set names.
	Weights      string `json:"weights"`      // The file; empty for random weights.
	Digest       string `json:"digest"`       // The first 16 hexadecimal digits of the file's SHA-256.
	// Patterns of the keys in the file that are left out, with spaces between them, as weights.ReadViT takes them.
	Ignore string `json:"ignore,omitzero"`
	// What --set changed in the training by the experiment pretrain, with commas between the settings.
	Changed string `json:"changed,omitzero"`
	// The run of the experiment pretrain that has left the file, the same for all its seeds. It identifies configuration and data.
	Run string `json:"run,omitzero"`
}

// read reads the file, which must hold all weights of a transformer.
func (e Encoder) read() (_ *weights.Import, err error) {
	defer try.Handle(&err)
	read := try.E1(weights.ReadViT(e.Weights, encoder.ViT{}, "", strings.Fields(e.Ignore)...))
	try.E(read.Complete())
	return read, nil
}

// Load returns the encoder with its weights at the store's root. Without a file, the seed draws the weights.
func (e Encoder) Load(seed int) (_ encoder.ViT, _ *model.Store, err error) {
	if e.Weights == "" {
		return evaluation.RandomViT(e.Architecture, seed)
	}
	defer try.Handle(&err)
	read := try.E1(e.read())
	if e.Digest != "" && e.Digest != try.E1(weights.Digest(e.Weights)) {
		return encoder.ViT{}, nil, fmt.Errorf("%s: has changed since this run began or was recorded", e.Weights)
	}
	store, err := read.Store()
	return read.ViT, store, err
}

// Open loads the encoder, ready to run on a backend. Close it.
func (e Encoder) Open(b compute.Backend, seed int) (_ *evaluation.Encoder, err error) {
	defer try.Handle(&err)
	vit, store := try.E2(e.Load(seed))
	opened, err := evaluation.NewEncoder(b, vit, store, evaluation.EncodeBatch, uint64(seed))
	if err == nil {
		opened.File = e.Weights
	}
	return opened, err
}

// addGate adds to the details of a number the correspondences that the training of the encoder's file began with, if it has left them beside the file.
func (e Encoder) addGate(details *map[string]float64) error {
	if e.Weights == "" {
		return nil
	}
	if *details == nil {
		*details = map[string]float64{}
	}
	return recipe.AddGate(filepath.Dir(e.Weights), *details)
}

// Describe names an encoder as the notes of a table do, and says where it computes in half precision.
func Describe(vit encoder.ViT) string {
	return lo.Ternary(vit.ComputeDType.IsHalfPrecision(), vit.Name+" in "+strings.ToLower(vit.ComputeDType.String()), vit.Name)
}

// seeded is an encoder and a seed. The seed selects the file of weights, or draws them if there is no file.
type seeded struct {
	Encoder
	seed int
}

// seedPlaceholder stands for the seed in the name of a weights file.
const seedPlaceholder = "{seed}"

// list lists the available encoders, all of one seed before the next seed: random weights, of the architecture of the encoders that the experiment pretrain has left
// in out, these, see [pretrained], and the files that --set names for the rows of one of the paper's tables. A file without {seed} in its name serves every seed, so that it pairs
// with encoders that have a file for each. rest holds the other assignments.
func list(o study.Options, table string, seeds int, read bool) (all []seeded, rest []string, err error) {
	defer try.Handle(&err)
	trained := try.E1(pretrained(o.Out, o.Profile, seeds, read))
	random := Encoder{Row: Random, Architecture: "vit-tiny"}
	switch {
	case len(trained) > 0:
		random.Architecture = trained[0].Architecture
	case o.Profile == study.Full:
		random.Architecture = "vit-s16"
	}
	all = append(lo.Times(seeds, func(seed int) seeded { return seeded{random, seed} }), trained...)
	ignore, files := map[string]string{}, []string(nil) // By row; assignments.
	for _, assignment := range o.Set {
		switch kind, given, _ := strings.Cut(assignment, "."); kind {
		case "ignore":
			key, patterns, _ := strings.Cut(given, "=")
			ignore[key] = patterns
		case "weights":
			files = append(files, given)
		default:
			rest = append(rest, assignment)
		}
	}
	for _, given := range files {
		key, file, _ := strings.Cut(given, "=")
		more, err := fromFiles(table, key, file, ignore[key], seeds)
		if err != nil {
			return nil, nil, fmt.Errorf("--set weights.%s: %w", given, err)
		}
		all = append(all, more...)
		delete(ignore, key)
	}
	for key := range ignore {
		return nil, nil, fmt.Errorf("--set ignore.%s: there is no --set weights.%s=FILE", key, key)
	}
	slices.SortStableFunc(all, func(a, b seeded) int { return a.seed - b.seed })
	return all, rest, nil
}

// rowName is the name of a row that --set weights.NAME=FILE adds. Names of cells have it as a part.
var rowName, signs, notDigits = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`), regexp.MustCompile(`[^\pL\d]`), regexp.MustCompile(`\D`)

// misspelt reports whether a name is nearly another row's: other signs or capitals, or one other letter before the size. Digits tell versions apart.
func misspelt(name, row string) bool {
	if strings.EqualFold(signs.ReplaceAllString(name, ""), signs.ReplaceAllString(row, "")) {
		return name != row
	}
	a, size, _ := strings.Cut(name, "-")
	b, other, _ := strings.Cut(row, "-")
	return size == other && notDigits.ReplaceAllString(a, "") == notDigits.ReplaceAllString(b, "") && edlib.OSADamerauLevenshteinDistance(a, b) == 1
}

// fromFiles returns the encoders that --set weights.KEY=FILE names, for a row of the paper's table or for another name. It reads each file, so that a file that does not fit its row is an error before
// anything runs. Keys in it that match a pattern of ignore are left out.
func fromFiles(table, key, file, ignore string, seeds int) (all []seeded, err error) {
	defer try.Handle(&err)
	keys := lo.Compact(lo.Map(PaperRows(table), func(row study.Row, _ int) string { return row.Key }))
	if titles[key] != "" || !rowName.MatchString(key) {
		return nil, fmt.Errorf("no row %q; want one of %s, or a name of your own of letters, digits and . _ + -", key, strings.Join(keys, ", "))
	}
	for _, near := range keys { // A misspelt row of the paper would become a row of its own without a word.
		if !slices.Contains(keys, key) && misspelt(key, near) {
			return nil, fmt.Errorf("no row %q: did you mean %s? Rows of the paper are %s; a row of your own needs a name that differs more", key, near, strings.Join(keys, ", "))
		}
	}
	for seed := range seeds {
		if seed > 0 && !strings.Contains(file, seedPlaceholder) {
			all = append(all, seeded{all[0].Encoder, seed})
			continue
		}
		e := Encoder{Row: key, Weights: strings.ReplaceAll(file, seedPlaceholder, fmt.Sprint(seed)), Ignore: ignore}
		e.Digest = try.E1(weights.Digest(e.Weights))
		read := try.E1(e.read())
		size := "-" + strings.Split(read.ViT.Name, "-")[1] // Without the parts of later transformers.
		if slices.Contains(keys, key) && !strings.HasSuffix(key, size) {
			return nil, fmt.Errorf("%s: holds %s, which does not fit row %s", e.Weights, read.ViT.Name, key)
		}
		all = append(all, seeded{e, seed})
	}
	return all, nil
}

// pretrained returns the encoders that the experiment pretrain has left in out, after both stages and the control of the last run of each seed in the
// profile, if it had the configuration and the data of the last run of all without changes, or else of the last. The full method and its control started from their run's alignment, or from a file, whose encoder then comes first. If
// read is true, the evaluation is on real images and takes runs that trained on real images; otherwise it takes runs that trained on synthetic images. If no
// run trained on images of that kind, it takes runs of the other kind.
func pretrained(out string, profile study.Profile, seeds int, read bool) (all []seeded, err error) {
	defer try.Handle(&err)
	records := try.E1(study.Records(study.Folder(out, recipe.Pretraining)))
	slices.Reverse(records)
	records = slices.DeleteFunc(records, func(r study.Record) bool { return r.Profile != profile || r.Seed >= seeds })
	if kind := func(r study.Record) bool { return (r.Kind == figures.Real) == read }; slices.ContainsFunc(records, kind) {
		records = slices.DeleteFunc(records, func(r study.Record) bool { return !kind(r) })
	}
	trained := func(r study.Record) (run string, changed []string) {
		var config recipe.Config
		try.E(r.DecodeConfig(&config))
		usual := recipe.Defaults(r, config)
		config.Recall, usual.Recall = recipe.Recall{}, recipe.Recall{} // It measures what is trained, and does not change it.
		changed = try.E1(settings.Changed("", usual, config))
		config.Init = "" // The data identify its content.
		return study.Hash(study.EncodeConfig(config), []byte(r.Data)), changed
	}
	ended := lo.Filter(records, func(r study.Record, _ int) bool { return r.Row == titles[Second] })
	chosen, unchanged := "", false // The latest run without changes, or else the latest.
	for _, r := range ended {
		if run, changed := trained(r); chosen == "" || !unchanged && changed == nil {
			chosen, unchanged = run, changed == nil
		}
	}
	for seed := range seeds {
		last, ok := lo.Find(ended, func(r study.Record) bool { run, _ := trained(r); return r.Seed == seed && run == chosen })
		if !ok {
			continue
		}
		for _, stage := range []string{Init, First, Control, Second} {
			i := slices.IndexFunc(records, func(r study.Record) bool {
				return r.Cell == last.Cell && r.ConfigHash == last.ConfigHash && r.Data == last.Data && r.Row == titles[stage]
			})
			if i < 0 { // The run did not start from a file, or did, or has no control.
				continue
			}
			file := records[i].File(out, records[i].Encoder)
			if _, err := os.Stat(file); stage == Init && errors.Is(err, os.ErrNotExist) { // A run of an earlier version.
				continue
			}
			var config recipe.Config
			try.E(records[i].DecodeConfig(&config))
			_, changed := trained(records[i])
			e := Encoder{Row: stage, Architecture: config.Second.Encoder, Weights: file, Changed: strings.Join(changed, ", ")}
			e.Run = chosen
			e.Digest = try.E1(weights.Digest(e.Weights))
			all = append(all, seeded{e, seed})
		}
	}
	return all, nil
}

// anyTrained reports whether the options provide an encoder that is not random.
func anyTrained(o study.Options) bool {
	trained, err := pretrained(o.Out, o.Profile, max(o.Seeds, 1), o.Data != "")
	return err != nil || len(trained) > 0 || // Cells reports the error.
		slices.ContainsFunc(o.Set, func(assignment string) bool { return strings.HasPrefix(assignment, "weights.") })
}

// Locate returns a recorded encoder with the current path of its file. It finds encoders of the experiment pretrain below out by their content, in case
// out has moved since they were recorded. Other files keep their path.
func (e Encoder) Locate(out string, profile study.Profile, seed int) (_ Encoder, err error) {
	defer try.Handle(&err)
	if titles[e.Row] == "" || e.Weights == "" {
		return e, nil
	}
	same := func(candidate seeded) bool { return candidate.Row == e.Row && candidate.Digest == e.Digest }
	for _, read := range []bool{true, false} {
		if found, ok := lo.Find(try.E1(pretrained(out, profile, seed+1, read)), same); ok {
			return found.Encoder, nil
		}
	}
	return e, nil
}
