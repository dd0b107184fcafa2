package encoders

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/study"
)

// Grid lists the cells of an evaluation: each encoder with each variant, and all with one seed before the next. C is the configuration of a cell.
type Grid[C comparable] struct {
	Table    string                // Of the paper: weights can be given for its rows.
	Seeds    map[study.Profile]int // Their number, where it is not 3.
	Variants []string              // What each encoder is evaluated with, as the part of a cell's name behind the row. Optional.
	Encoder  func(config *C) *Encoder
	// Config is the configuration of a profile, but for the encoder, with the assignments of --set applied and checked.
	Config func(profile study.Profile, dataset, variant string, set []string) (C, error)
}

// Cells is the Cells of a [study.Spec].
func (g Grid[C]) Cells(o study.Options, dataset string) (cells []study.Cell[C], err error) {
	seeds := 3
	if number, ok := g.Seeds[o.Profile]; ok {
		seeds = number
	}
	encoders, set, err := list(o, g.Table, o.SeedsOr(seeds))
	if err != nil {
		return nil, err
	}
	variants := g.Variants
	if len(variants) == 0 {
		variants = []string{""}
	}
	configs := make([]C, len(variants))
	for i, variant := range variants {
		if configs[i], err = g.Config(o.Profile, dataset, variant, set); err != nil {
			return nil, err
		}
		if *g.Encoder(&configs[i]) != (Encoder{}) {
			return nil, errors.New("--set encoder: give weights by --set weights.ROW=FILE, and choose runs with --only '*/ROW'")
		}
	}
	for _, e := range encoders {
		for i, variant := range variants {
			cell := study.Cell[C]{Dataset: dataset, Path: []string{dataset, e.Row}, Seed: e.seed, Config: configs[i]}
			if variant != "" {
				cell.Path = append(cell.Path, variant)
			}
			*g.Encoder(&cell.Config) = e.Encoder
			cells = append(cells, cell)
		}
	}
	return cells, nil
}

// Own is the Own of a [study.Spec].
func (g Grid[C]) Own(r study.Record, config C) C {
	parts := strings.Split(r.Cell, "/") // The dataset, the row, the variant if there are any, and the seed.
	variant := ""
	if len(g.Variants) > 0 && len(parts) > 2 {
		variant = parts[2]
	}
	own, _ := g.Config(r.Profile, parts[0], variant, nil) // A profile's own configuration is in range.
	*g.Encoder(&own) = *g.Encoder(&config)
	return own
}

// Common is the Common of a [study.Spec]: all but the encoders, which are what is compared.
func (g Grid[C]) Common(config, _ C) C {
	*g.Encoder(&config) = Encoder{}
	return config
}

// seeded is an encoder and a seed: with weights of a file the seed says which file, without one how they are drawn.
type seeded struct {
	Encoder
	seed int
}

// seedPlace stands for the number of the seed in the name of a file of weights.
const seedPlace = "{seed}"

// list lists the encoders that there are: of random weights, those that the experiment pretrain has left in out, and the files that --set names for
// the rows of a table of the paper; all of one seed before the next. A file's name may have {seed} in it; without, it is of one seed alone. rest are
// the other assignments.
func list(o study.Options, table string, seeds int) (all []seeded, rest []string, err error) {
	rows, err := PaperRows(table)
	if err != nil {
		return nil, nil, err
	}
	for seed := range seeds {
		all = append(all, seeded{Encoder{Row: Random, Architecture: randomArchitecture(o.Profile)}, seed})
	}
	trained, err := pretrained(o.Out, o.Profile, seeds)
	if err != nil {
		return nil, nil, err
	}
	all = append(all, trained...)
	for _, assignment := range o.Set {
		given, isWeights := strings.CutPrefix(assignment, "weights.")
		if !isWeights {
			rest = append(rest, assignment)
			continue
		}
		key, file, _ := strings.Cut(given, "=")
		more, err := named(rows, key, file, seeds)
		if err != nil {
			return nil, nil, fmt.Errorf("--set %s: %w", assignment, err)
		}
		all = append(all, more...)
	}
	slices.SortStableFunc(all, func(a, b seeded) int { return a.seed - b.seed })
	return all, rest, nil
}

// named are the encoders that --set weights.KEY=FILE names. A file that is not what its row is of is an error now, not when the runs of the rows before
// it are done.
func named(rows []Row, key, file string, seeds int) (all []seeded, err error) {
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.Key == key }) {
		var keys []string
		for _, row := range rows {
			keys = append(keys, row.Key)
		}
		return nil, fmt.Errorf("no row %q; the rows are %s", key, strings.Join(keys, ", "))
	}
	if !strings.Contains(file, seedPlace) {
		seeds = 1
	}
	for seed := range seeds {
		e := Encoder{Row: key, Weights: strings.ReplaceAll(file, seedPlace, fmt.Sprint(seed))}
		if e.Digest, err = Digest(e.Weights); err != nil {
			return nil, err
		}
		if _, err := e.read(); err != nil {
			return nil, err
		}
		all = append(all, seeded{e, seed})
	}
	return all, nil
}

// pretrained are the encoders that the experiment pretrain has left in out, of the same profile, after both stages of the last run of each seed: what
// alignment left is what the full method began from, and no other run's.
func pretrained(out string, profile study.Profile, seeds int) (all []seeded, err error) {
	records, err := study.Records(study.Folder(out, pretrain.Name))
	if err != nil {
		return nil, err
	}
	slices.Reverse(records)
	for seed := range seeds {
		at := slices.IndexFunc(records, func(r study.Record) bool { return r.Profile == profile && r.Seed == seed && r.Row == titles[Second] })
		if at < 0 {
			continue
		}
		last := records[at]
		for _, stage := range []string{First, Second} {
			i := slices.IndexFunc(records, func(r study.Record) bool {
				return r.Cell == last.Cell && r.ConfigHash == last.ConfigHash && r.Data == last.Data && r.Row == titles[stage]
			})
			if i < 0 { // The run began from a file.
				continue
			}
			var config pretrain.Config
			if err := records[i].DecodeConfig(&config); err != nil {
				return nil, err
			}
			e := Encoder{Row: stage, Architecture: config.Second.Encoder, Weights: pretrain.EncoderFile(out, records[i], stage)}
			if e.Digest, err = Digest(e.Weights); err != nil {
				return nil, err
			}
			all = append(all, seeded{e, seed})
		}
	}
	return all, nil
}

// Learned tells whether the options give an encoder that has learnt.
func Learned(o study.Options) bool {
	trained, err := pretrained(o.Out, o.Profile, max(o.Seeds, 1))
	return err != nil || len(trained) > 0 || // The error is reported where cells are listed.
		slices.ContainsFunc(o.Set, func(assignment string) bool { return strings.HasPrefix(assignment, "weights.") })
}

// Located is a recorded encoder with its file as it is reached from here: what pretrain has left under out is found there again by its content, wherever
// out lay when it was recorded and from where it was named. Other files are where they were.
func (e Encoder) Located(out string, profile study.Profile, seed int) (Encoder, error) {
	if titles[e.Row] == "" || e.Weights == "" {
		return e, nil
	}
	all, err := pretrained(out, profile, seed+1)
	if err != nil {
		return e, err
	}
	for _, found := range all {
		if found.Row == e.Row && found.Digest == e.Digest {
			return found.Encoder, nil
		}
	}
	return e, nil
}
