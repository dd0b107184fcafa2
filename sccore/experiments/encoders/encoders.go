package encoders

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/weights"
)

// frozenRow is a row of a table that compares frozen encoders: one of the paper's, whose weights come from a file, or one of ours.
type frozenRow struct {
	key   string   // In cell names and in --set weights.KEY=FILE.
	heads []string // As the table has them: the method, the architecture and, where the table has it, the training data.
}

// Rows that no table of the paper has: weights as they are drawn, and what the experiment pretrain leaves after its two stages.
const (
	keyRandom = "random"
	keyFirst  = "first"
	keySecond = "second"
)

// ownMethods are what tables call our own rows.
var ownMethods = map[string]string{keyRandom: rowRandom, keyFirst: rowFirst, keySecond: rowSecond}

// ownRows are the rows that no table of the paper has.
func ownRows() (rows []frozenRow) {
	for _, key := range []string{keyRandom, keyFirst, keySecond} {
		rows = append(rows, frozenRow{key: key})
	}
	return rows
}

// paperRows are the rows of a table of the paper whose encoders are vision transformers, which weights can be given for: "dino-s16" for DINO,
// "dino+ours-s16" for DINO + Ours. A table that names no architecture is of ViT-S/16 (appendix, "Network architecture").
func paperRows(table string) ([]frozenRow, error) {
	printed, err := figures.Paper(table)
	if err != nil {
		return nil, err
	}
	var rows []frozenRow
	for _, row := range printed.Rows {
		architecture := "ViT-S/16"
		if printed.RowHeads[1].Name == "arch" {
			architecture = row.Heads[1]
		}
		if size, ok := strings.CutPrefix(architecture, "ViT-"); ok {
			key := strings.ReplaceAll(row.Heads[0], " ", "") + "-" + strings.ReplaceAll(size, "/", "")
			rows = append(rows, frozenRow{strings.ToLower(key), row.Heads})
		}
	}
	return rows, nil
}

// methodRows are the rows of the full method and of its initialisation, as claims name the latter: "DINO", "iBOT" or "Mugs" with ViT-S/16, or
// "own" for our own training.
func methodRows(initialisation string) (method, before string) {
	if initialisation == "own" {
		return keySecond, keyFirst
	}
	before = strings.ToLower(initialisation)
	return before + "+ours-s16", before + "-s16"
}

// frozenEncoder is where a cell's encoder comes from, as it stands in configurations.
type frozenEncoder struct {
	Row          string `json:"row"`
	Architecture string `json:"architecture"` // Of random weights and of our own training.
	Weights      string `json:"weights"`      // The file; empty for random weights.
	Digest       string `json:"digest"`       // The first 16 hexadecimal digits of the file's SHA-256.
}

// elsewhere is the same encoder wherever its file lies, for the hashes of configurations.
func (e frozenEncoder) elsewhere() frozenEncoder {
	e.Weights = ""
	return e
}

// errGivenEncoder refuses to set by hand what a row says.
var errGivenEncoder = errors.New("--set encoder: give weights by --set weights.ROW=FILE, and choose runs with --only '*/ROW'")

// frozenCell is a row and a seed: with weights of a file the seed says which file, without one how they are drawn.
type frozenCell struct {
	frozenEncoder
	seed int
}

// seedPlace stands for the number of the seed in the name of a file of weights.
const seedPlace = "{seed}"

// frozenCells lists the rows that there are weights for: random ones, those that the experiment pretrain has left in out, and the files that --set
// names for the paper's rows; all of one seed before the next. A file's name may have {seed} in it; without, it is one cell. rest are the other
// assignments.
func frozenCells(options Options, table, architecture string, seeds int) (cells []frozenCell, rest []string, err error) {
	rows, err := paperRows(table)
	if err != nil {
		return nil, nil, err
	}
	if options.Seeds > 0 {
		seeds = options.Seeds
	}
	for seed := range seeds {
		cells = append(cells, frozenCell{frozenEncoder{Row: keyRandom, Architecture: architecture}, seed})
	}
	trained, err := pretrainedCells(options, seeds)
	if err != nil {
		return nil, nil, err
	}
	cells = append(cells, trained...)
	for _, assignment := range options.Set {
		given, isWeights := strings.CutPrefix(assignment, "weights.")
		if !isWeights {
			rest = append(rest, assignment)
			continue
		}
		key, file, _ := strings.Cut(given, "=")
		if !slices.ContainsFunc(rows, func(r frozenRow) bool { return r.key == key }) {
			var keys []string
			for _, row := range rows {
				keys = append(keys, row.key)
			}
			return nil, nil, fmt.Errorf("--set %s: no row %q; the rows are %s", assignment, key, strings.Join(keys, ", "))
		}
		for seed := range seeds {
			if seed > 0 && !strings.Contains(file, seedPlace) {
				break
			}
			named := strings.ReplaceAll(file, seedPlace, fmt.Sprint(seed))
			digest, err := digestOf(named)
			if err != nil {
				return nil, nil, fmt.Errorf("--set %s: %w", assignment, err)
			}
			given := frozenEncoder{Row: key, Weights: named, Digest: digest}
			// A file that is not what its row is of is told now, not when the runs of the rows before it are done.
			if _, err := given.read(); err != nil {
				return nil, nil, fmt.Errorf("--set %s: %w", assignment, err)
			}
			cells = append(cells, frozenCell{given, seed})
		}
	}
	slices.SortStableFunc(cells, func(a, b frozenCell) int { return a.seed - b.seed })
	return cells, rest, nil
}

// pretrainedCells are the encoders that the experiment pretrain has left in out, of the same profile, after both stages of the last run of each
// seed: what alignment left is what the full method began from, and no other run's.
func pretrainedCells(options Options, seeds int) (cells []frozenCell, err error) {
	records, err := Records(folderOf(options.Out, Pretrain))
	if err != nil {
		return nil, err
	}
	slices.Reverse(records)
	for seed := range seeds {
		last := slices.IndexFunc(records, func(r Record) bool {
			return r.Profile == options.Profile && r.Seed == seed && r.Row == rowSecond
		})
		if last < 0 {
			continue
		}
		for _, key := range []string{keyFirst, keySecond} {
			i := slices.IndexFunc(records, func(r Record) bool {
				return r.Cell == records[last].Cell && r.ConfigHash == records[last].ConfigHash && r.Data == records[last].Data && r.Row == ownMethods[key]
			})
			if i < 0 { // The run began from a file.
				continue
			}
			file := PretrainedEncoder(options.Out, records[i], key)
			digest, err := digestOf(file)
			if err != nil {
				return nil, err
			}
			var config PretrainConfig
			if err := records[i].configuration(&config); err != nil {
				return nil, err
			}
			cells = append(cells, frozenCell{frozenEncoder{key, config.Second.Encoder, file, digest}, seed})
		}
	}
	return cells, nil
}

// located is a recorded encoder with its file as it is reached from here: what pretrain has left under out is found there again by its content,
// wherever out lay when it was recorded and from where it was named. Other files are where they were.
func (e frozenEncoder) located(out string, profile Profile, seed int) (frozenEncoder, error) {
	if ownMethods[e.Row] == "" || e.Weights == "" {
		return e, nil
	}
	cells, err := pretrainedCells(Options{Out: out, Profile: profile}, seed+1)
	if err != nil {
		return e, err
	}
	for _, c := range cells {
		if c.Row == e.Row && c.Digest == e.Digest {
			return c.frozenEncoder, nil
		}
	}
	return e, nil
}

// digestOf identifies a file's content.
func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(digest.Sum(nil)[:8]), nil
}

// read reads the file, which must hold all weights of the row's architecture.
func (e frozenEncoder) read() (*weights.Import, error) {
	read, err := weights.ReadViT(e.Weights, encoder.ViT{Positions: encoder.DINOPositions}, "")
	if err != nil {
		return nil, err
	}
	if len(read.Missing) > 0 {
		return nil, fmt.Errorf("%s: no weights of the filter, %s first", e.Weights, read.Missing[0])
	}
	if size := strings.TrimPrefix(read.ViT.Name, "vit"); ownMethods[e.Row] == "" && !strings.HasSuffix(e.Row, size) {
		return nil, fmt.Errorf("%s: holds %s, which row %s is not of", e.Weights, read.ViT.Name, e.Row)
	}
	return read, nil
}

// open returns the encoder with its weights at the store's root.
func (e frozenEncoder) open(seed int) (encoder.ViT, *model.Store, error) {
	if e.Weights == "" {
		return randomViT(e.Architecture, seed)
	}
	read, err := e.read()
	if err != nil {
		return encoder.ViT{}, nil, err
	}
	store := model.NewStore()
	return read.ViT, store, read.Apply(store, "/")
}

// randomArchitecture is what an encoder of random weights is in a profile.
func randomArchitecture(profile Profile) string {
	if profile == Full {
		return "vit-s16"
	}
	return "vit-tiny"
}

// randomViT draws a transformer's weights, the same on every backend.
func randomViT(name string, seed int) (v encoder.ViT, store *model.Store, err error) {
	if v, err = encoder.ViTByName(name); err != nil {
		return v, nil, err
	}
	host, err := backend.OpenConfig(backend.Go)
	if err != nil {
		return v, nil, err
	}
	defer host.Finalize()
	store = model.NewStore()
	caught := exceptions.TryCatch[error](func() {
		var tokens *model.Exec
		tokens, err = model.NewExec(host, store, func(scope *model.Scope, images *graph.Node) *graph.Node { return v.Tokens(scope, images).Class })
		if err != nil {
			return
		}
		defer tokens.Finalize()
		_, err = tokens.Compile(shapes.Make(dtypes.Float32, 1, v.Patch, v.Patch, 3)) // Which makes the variables.
	})
	if err = errors.Join(caught, err); err != nil {
		return v, nil, err
	}
	return v, store, train.Initialize(store, uint64(seed))
}
