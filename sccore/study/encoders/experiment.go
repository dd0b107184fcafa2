// Package encoders makes studies of evaluations of frozen encoders, such as the experiments main, transfer, video, patch-recall and centroid.
//
// In goes an [Experiment]: an evaluation, its configuration in each profile, its datasets and tables. The package adds the encoders: random weights, those that
// the experiment pretrain has left, and the files that --set names for the rows of one of the paper's tables. Out come a [study.Spec], and rows and columns of
// tables with the paper's numbers beside ours ([Beside], [Alone]). Experiments that train encoders further are a [Tuning]. centroid is the shortest example.
package encoders

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// Experiment is an evaluation of frozen encoders: each encoder on each dataset, in each variant. C is the configuration of a cell, which embeds [Config].
type Experiment[C comparable] struct {
	Grid[C]
	Sources[evaluation.Data] // Open is by default the evaluation's.

	// Evaluation returns what a configuration measures.
	Evaluation func(config C) evaluation.Evaluation
	// Group is the group of the settings images and size, as many and as large as they are drawn without a dataset: "classifier."; empty for the configuration
	// itself. Drawn replaces it where other things are drawn. Optional.
	Group string
	Drawn func(config C) evaluation.Source
	// Part returns a seed's part of the images; drawn ones, without o.Data, are its own already. Optional: without it each seed has all of a dataset.
	Part func(o study.Options, d evaluation.Data, config C, seed int) evaluation.Data
	// Columns are those of the evaluation's numbers, in their order. Optional: without it the title of the data.
	Columns func(d evaluation.Data, c study.Cell[C]) []string

	// These three are as in a [study.Spec].
	Tables  func(study.Results) []figures.Table
	Figures func(study.Results, study.FigureSources, *study.Drawn)
	Random  string
}

// Spec returns the study.
func (e Experiment[C]) Spec() study.Spec[C, evaluation.Data] {
	if e.Sources.Open == nil {
		e.Sources.Open = func(dir, name string) (evaluation.Data, error) {
			return e.Evaluation(*new(C)).Open(evaluation.Source{Dir: dir, Dataset: name})
		}
	}
	if e.Drawn == nil {
		e.Drawn = func(config C) (source evaluation.Source) {
			for key, value := range map[string]*int{"images": &source.Images, "size": &source.Size} {
				*value, _ = strconv.Atoi(settings.Value(config, e.Group+key))
			}
			return source
		}
		rules := e.Rules
		e.Rules = func(config C, dataset string) (err error) {
			if rules != nil {
				err = rules(config, dataset)
			}
			if source := e.Drawn(config); err == nil && Drawn(dataset) {
				err = synthetic.Check(e.Group+"images", source.Images, e.Group+"size", source.Size)
			}
			return err
		}
	}
	e.Sources.Experiment = e.Grid.Name
	return study.Spec[C, evaluation.Data]{
		Name: e.Grid.Name, Parts: []string{"dataset", "row", "seed"}, Datasets: e.Sources.Datasets, Cells: e.Grid.Cells,
		Open: func(o study.Options, dataset string, cells []study.Cell[C]) (evaluation.Data, error) {
			c, source := cells[0].Config, evaluation.Source{}
			if Drawn(dataset) {
				source = e.Drawn(c)
			}
			source.Dir, source.Dataset, source.Seed = o.Data, dataset, cells[0].Seed
			d, err := e.Evaluation(c).Open(source)
			if err != nil || e.Part == nil {
				return d, err
			}
			return e.Part(o, d, c, source.Seed), nil
		},
		Numbers:   e.numbers,
		Steps:     func(d evaluation.Data, _ study.Cell[C]) int { return max(1, len(d.Videos)) },
		NewWorker: study.Independent(e.run), Serial: true,
		ProfileConfig: e.ProfileConfig, Common: e.Common, Tables: e.Tables, Figures: e.Figures, Random: e.Random,
	}
}

// numbers lists the numbers of a cell without their values.
func (e Experiment[C]) numbers(d evaluation.Data, c study.Cell[C]) []study.Number {
	if e.Columns == nil {
		return []study.Number{{Row: encoderOf(&c.Config).Row, Column: d.Title()}}
	}
	return lo.Map(e.Columns(d, c), func(column string, _ int) study.Number {
		return study.Number{Row: encoderOf(&c.Config).Row, Column: column}
	})
}

// run measures a cell's encoder and records its numbers.
func (e Experiment[C]) run(r *study.Run[C, evaluation.Data]) (err error) {
	defer try.Handle(&err)
	encoder := try.E1(encoderOf(&r.Cell.Config).Open(r.Backend(), r.Cell.Seed))
	defer encoder.Close()
	encoder.Progress = func(_, _ int, _, note string) { r.Step("%s", note) }
	measured := e.Evaluation(r.Cell.Config)
	result, err := measured.Measure(r.Context, encoder, r.Data)
	if bad := (evaluation.BadSetting{}); errors.As(err, &bad) {
		return study.BadOption{Err: err}
	}
	try.E(err)
	numbers, said := e.numbers(r.Data, r.Cell), []string{}
	for i, n := range result.Numbers {
		numbers[i].Metric, numbers[i].Unit, numbers[i].Value, numbers[i].Details, numbers[i].Images = n.Metric, n.Unit, n.Value, n.Details, n.Images
		numbers[i].Protocol = cmp.Or(result.Protocol, measured.Protocol())
		try.E(encoderOf(&r.Cell.Config).addGate(&numbers[i].Details))
		if r.Data.Note != "" {
			numbers[i].Protocol += "; " + r.Data.Note
		}
		said = append(said, fmt.Sprintf("%s %.1f %s", n.Metric, n.Value, n.Unit))
	}
	if len(r.Data.Videos) == 0 {
		r.Step("%s", strings.Join(said, ", "))
	}
	return r.Record(numbers...)
}

// Grid lists the cells of an evaluation: each encoder with each variant, all cells of one seed before the next seed. C is the configuration of a cell, which
// embeds [Config].
type Grid[C comparable] struct {
	Name     string   // The experiment's.
	Table    string   // The paper's table whose rows --set weights.ROW=FILE can name.
	Variants []string // The heads that each encoder is evaluated with: the part of a cell's name after the row, and the setting head. Optional.
	// Shares is the number of shares that real images are cut into, of which each seed has its own. Optional.
	Shares func(config C) int

	Base  func(profile study.Profile, dataset string) C // The configuration that the settings of profiles change. Optional: without it, all is 0.
	Rules func(config C, dataset string) error          // Rules that depend on the dataset. Optional.
	On    func(config C, dataset string) C              // Leaves out the settings that a dataset does not use. Optional.

	Colours func(config C) datasets.Preprocessing // What images are standardised by, which the makers of weights must do alike. Optional, and 0 is the default.
}

// Defaults is the configuration of a profile without the encoder and before --set. Facts of its settings are the profile, the kind of images, the dataset and the variant.
func (g Grid[C]) Defaults(profile study.Profile, dataset, variant string) C {
	var base C
	if g.Base != nil {
		base = g.Base(profile, dataset)
	}
	return study.Configured(g.Name, base, string(profile), study.Kind(!Drawn(dataset)), dataset, variant)
}

// Config is the configuration of a profile without the encoder, with the assignments of --set applied and checked: "batch=4" is for all runs, "fpn.steps=100" and
// "ade20k.batch=8" are for one head or dataset where there are heads.
func (g Grid[C]) Config(profile study.Profile, dataset, variant string, set []string) (c C, err error) {
	defer try.Handle(&err)
	if variant != "" {
		set = settings.For(settings.For(set, dataset, append([]string{Synthetic}, study.InfoOf(g.Name).Reads...)), variant, g.Variants)
	}
	c = g.Defaults(profile, dataset, variant)
	try.E(settings.Apply(&c, set...))
	if given := strings.Trim(settings.Value(c, "head"), `"`); variant != "" && given != variant {
		return c, fmt.Errorf("--set head=%[1]s: choose heads with --only '*/*/%[1]s/*'", given)
	}
	if err = settings.Check(c); err == nil && g.Rules != nil {
		err = g.Rules(c, dataset)
	}
	if g.On != nil {
		c = g.On(c, dataset)
	}
	return c, err
}

// Cells implements Cells of a [study.Spec].
func (g Grid[C]) Cells(o study.Options, dataset string) (cells []study.Cell[C], err error) {
	defer try.Handle(&err)
	seeds := study.Seeds(g.Name, o)
	encoders, set := try.E2(list(o, g.Table, seeds, !Drawn(dataset)))
	variants := lo.Ternary(len(g.Variants) == 0, []string{""}, g.Variants)
	configs := make([]C, len(variants))
	for i, variant := range variants {
		configs[i] = try.E1(g.Config(o.Profile, dataset, variant, set))
		if *encoderOf(&configs[i]) != (Encoder{}) {
			return nil, errors.New("--set encoder: use --set weights.ROW=FILE for weights, and --only '*/ROW' to choose runs")
		}
	}
	if g.Shares != nil && !Drawn(dataset) {
		try.E(study.CheckSeeds(seeds, g.Shares(configs[0])))
	}
	for _, e := range encoders {
		for i, variant := range variants {
			cell := study.Cell[C]{Dataset: dataset, Path: []string{dataset, e.Row}, Seed: e.seed, Config: configs[i]}
			if variant != "" {
				cell.Path = append(cell.Path, variant)
			}
			if *encoderOf(&cell.Config) = e.Encoder; e.Weights != "" {
				var ours datasets.Preprocessing
				if g.Colours != nil {
					ours = g.Colours(cell.Config)
				}
				try.E(weights.CheckColours(e.Weights, cmp.Or(ours, datasets.DefaultPreprocessing())))
			}
			cells = append(cells, cell)
		}
	}
	return cells, nil
}

// ProfileConfig implements ProfileConfig of a [study.Spec].
func (g Grid[C]) ProfileConfig(r study.Record, config C) C {
	c, _ := g.Config(r.Profile, r.Dataset, r.Variant, nil) // A profile's configuration is always in range.
	*encoderOf(&c) = *encoderOf(&config)
	return c
}

// Common implements Common of a [study.Spec]: everything but the encoder, because encoders are what is compared.
func (g Grid[C]) Common(config, _ C) C {
	*encoderOf(&config) = Encoder{}
	return config
}

// Share returns a seed's share of the images of each split, which no other seed has; all if shares is 1, or of a split that is too small. The classes stay. The
// identity is that of all seeds.
func Share(o study.Options, d evaluation.Data, seed, shares int) evaluation.Data {
	own, cut := d.Share(seed, func(n int) int { return o.SharesOf(d.Title(), n, "images", shares) })
	own.ID = study.IdentityOfShares(d.ID, cut)
	return own
}

// Synthetic is the dataset of an evaluation without --data.
const Synthetic = evaluation.Synthetic

// Drawn reports whether a dataset is drawn, for each seed anew.
func Drawn(dataset string) bool { return dataset == Synthetic }

// Sources are the datasets that an evaluation reads below --data, as values of type D: those that the experiment's file says it reads. Without --data it runs on synthetic
// images.
type Sources[D any] struct {
	Experiment string // The experiment that describes them.
	// Open opens a dataset. If the dataset does not exist, the error is an [fs.ErrNotExist].
	Open func(dir, name string) (D, error)
	// Without says what tables lack if a dataset is missing. Optional: without it the warning is the error alone.
	Without map[string]string
}

// Datasets implements Datasets of a [study.Spec].
func (s Sources[D]) Datasets(o study.Options) (names, missing []string, err error) {
	info := study.InfoOf(s.Experiment)
	switch {
	case o.Data != "":
		names, missing, err = s.Present(o.Data)
	case o.Profile == study.Full, o.Profile == study.Real:
		err = fmt.Errorf("the %s profile needs --data DIR with %s", o.Profile, info.Needed)
	default:
		names = []string{Synthetic}
	}
	if err == nil && info.Row != "" && !anyTrained(o) {
		missing = append(missing, fmt.Sprintf(
			"all encoders are random: \"semcon run pretrain --profile %s\" trains two, and --set weights.%s=FILE names one", o.Profile, info.Row))
	}
	return names, missing, err
}

// Present lists the datasets that a data folder has. Each line of missing says what is skipped, and why. If there is no dataset at all, that is an error.
func (s Sources[D]) Present(dir string) (names, missing []string, err error) {
	info := study.InfoOf(s.Experiment)
	for _, name := range info.Reads {
		_, err := s.Open(dir, name)
		switch {
		case err == nil:
			names = append(names, name)
		case !errors.Is(err, fs.ErrNotExist) || len(info.Reads) == 1:
			return nil, nil, err
		case s.Without[name] != "":
			missing = append(missing, fmt.Sprintf("skipped %s: %v", s.Without[name], err))
		default:
			missing = append(missing, err.Error())
		}
	}
	if len(names) == 0 {
		return nil, nil, datasets.Missing(fmt.Sprintf("%s in %s (\"semcon data --data %[2]s\" lists the expected folders)", info.None, dir))
	}
	return names, missing, nil
}

// COCOStuff is the dataset that Tab. main segments.
const COCOStuff = "coco"

// Main is the experiment whose datasets measure encoders of other experiments too.
const Main = "main"

// MainTable are the datasets of the paper's Tab. main.
var MainTable = Sources[evaluation.Data]{
	Experiment: Main,
	Open: func(dir, name string) (evaluation.Data, error) {
		return evaluation.MainTable{}.Open(evaluation.Source{Dir: dir, Dataset: name})
	},
	Without: map[string]string{evaluation.ImageNet: "the columns of linear and k-NN classification", COCOStuff: "the columns of linear segmentation"},
}
