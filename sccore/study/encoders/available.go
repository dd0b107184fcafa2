package encoders

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// seeded is an encoder and a seed. The seed selects the file of weights, or draws them if there is no file.
type seeded struct {
	Encoder
	seed int
}

// seedPlaceholder stands for the seed in the name of a weights file.
const seedPlaceholder = "{seed}"

// list lists the available encoders, all of one seed before the next seed: random weights, of the architecture of the encoders that the experiment pretrain has left
// in out, these, see [pretrained], and the files that --set names for the rows of one of the paper's tables. A file name without {seed} counts for seed 0 alone. rest holds the other
// assignments.
func list(o study.Options, table string, seeds int, read bool) (all []seeded, rest []string, err error) {
	trained, err := pretrained(o.Out, o.Profile, seeds, read)
	if err != nil {
		return nil, nil, err
	}
	random := Encoder{Row: Random, Architecture: randomArchitecture(o.Profile)}
	if len(trained) > 0 {
		random.Architecture = trained[0].Architecture
	}
	for seed := range seeds {
		all = append(all, seeded{random, seed})
	}
	all = append(all, trained...)
	ignore := map[string]string{} // By row.
	for _, assignment := range o.Set {
		if given, ok := strings.CutPrefix(assignment, "ignore."); ok {
			key, patterns, _ := strings.Cut(given, "=")
			ignore[key] = patterns
		}
	}
	for _, assignment := range o.Set {
		if strings.HasPrefix(assignment, "ignore.") {
			continue
		}
		given, isWeights := strings.CutPrefix(assignment, "weights.")
		if !isWeights {
			rest = append(rest, assignment)
			continue
		}
		key, file, _ := strings.Cut(given, "=")
		more, err := fromFiles(PaperRows(table), key, file, ignore[key], seeds)
		if err != nil {
			return nil, nil, fmt.Errorf("--set %s: %w", assignment, err)
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

// fromFiles returns the encoders that --set weights.KEY=FILE names. It reads each file, so that a file that does not fit its row is an error before
// anything runs. Keys in it that match a pattern of ignore are left out.
func fromFiles(rows []Row, key, file, ignore string, seeds int) (all []seeded, err error) {
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.Key == key }) {
		var keys []string
		for _, row := range rows {
			keys = append(keys, row.Key)
		}
		return nil, fmt.Errorf("no row %q; the rows are %s", key, strings.Join(keys, ", "))
	}
	if !strings.Contains(file, seedPlaceholder) {
		seeds = 1
	}
	for seed := range seeds {
		e := Encoder{Row: key, Weights: strings.ReplaceAll(file, seedPlaceholder, fmt.Sprint(seed)), Ignore: ignore}
		if e.Digest, err = weights.Digest(e.Weights); err != nil {
			return nil, err
		}
		if _, err := e.read(); err != nil {
			return nil, err
		}
		all = append(all, seeded{e, seed})
	}
	return all, nil
}

// pretrained returns the encoders that the experiment pretrain has left in out, after both stages and the control of the last run of each seed in the
// profile. All are from the same run: the full method and its control started from that run's alignment, or from a file, whose encoder comes first then. An evaluation on real images, for which read is true,
// takes runs that trained on real images, and one on synthetic images those that trained on synthetic ones; each takes the others where there are none at all.
func pretrained(out string, profile study.Profile, seeds int, read bool) (all []seeded, err error) {
	records, err := study.Records(study.Folder(out, recipe.Pretraining))
	if err != nil {
		return nil, err
	}
	slices.Reverse(records)
	records = slices.DeleteFunc(records, func(r study.Record) bool { return r.Profile != profile || r.Seed >= seeds })
	if kind := func(r study.Record) bool { return (r.Kind == figures.Real) == read }; slices.ContainsFunc(records, kind) {
		records = slices.DeleteFunc(records, func(r study.Record) bool { return !kind(r) })
	}
	for seed := range seeds {
		at := slices.IndexFunc(records, func(r study.Record) bool { return r.Seed == seed && r.Row == titles[Second] })
		if at < 0 {
			continue
		}
		last := records[at]
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
			if err := records[i].DecodeConfig(&config); err != nil {
				return nil, err
			}
			changed, err := settings.Changed("", recipe.Defaults(records[i], config), config)
			if err != nil {
				return nil, err
			}
			e := Encoder{Row: stage, Architecture: config.Second.Encoder, Weights: file, Changed: strings.Join(changed, ", ")}
			if e.Digest, err = weights.Digest(e.Weights); err != nil {
				return nil, err
			}
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
func (e Encoder) Locate(out string, profile study.Profile, seed int) (Encoder, error) {
	if titles[e.Row] == "" || e.Weights == "" {
		return e, nil
	}
	for _, read := range []bool{true, false} {
		all, err := pretrained(out, profile, seed+1, read)
		if err != nil {
			return e, err
		}
		for _, candidate := range all {
			if candidate.Row == e.Row && candidate.Digest == e.Digest {
				return candidate.Encoder, nil
			}
		}
	}
	return e, nil
}
