// Package ablation studies the effect of each part of the method ("Ablation Studies"). Seven lines with parts of the method on or off train from the same
// checkpoint per seed, and four that the paper does not have, which vary the filter.
package ablation

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/study"
)

// Name is the experiment's name.
const Name = "ablation"

// cellNames are the names of the cells besides the lines. Cells on real images have the dataset in front: line4/seed0, stage1/seed0, images/line4/seed0.
var cellNames = map[string]string{recipe.RowRandom: "random", recipe.RowAlignment: "stage1", recipe.RowInit: "init"}

// newCell returns the cell of a row, which is the number of a line or a row of the experiment pretrain.
func newCell(dataset, row string, seed int, config maintable.Config) study.Cell[maintable.Config] {
	cell := maintable.NewCell(dataset, seed, config, cmp.Or(cellNames[row], "line"+row))
	cell.Row = row
	return cell
}

// The line with the filter, and its encoder read with the filter left out.
const (
	filteredRow = "7"
	beforeRow   = "7, before the filter"
)

// lineOf returns the line of a cell; ok is false for the other cells.
func lineOf(c study.Cell[maintable.Config]) (line sccore.Ablation, ok bool) {
	number, err := strconv.Atoi(c.Row)
	if err != nil {
		return line, false
	}
	return maintable.AllLines[number-1], true
}

// cells lists the cells of a call. The cells that others start from come first.
func cells(o study.Options, dataset string) ([]study.Cell[maintable.Config], error) {
	config := maintable.ProfileConfig(o.Profile, dataset == recipe.Images)
	if err := config.Configure(o, &config, dataset == recipe.Images); err != nil {
		return nil, err
	}
	if second := config.Second; second.BlocksAfterFilter > 0 || second.Filter != "" {
		return nil, fmt.Errorf("second.blocks_after_filter %d, second.filter %q: the lines from 8 on vary the filter of line 7, want 0 and none", second.BlocksAfterFilter, second.Filter)
	}
	rows := []string{recipe.RowRandom, recipe.RowAlignment}
	if config.Init != "" {
		rows[1] = recipe.RowInit
	}
	for _, line := range slices.Backward(config.Lines()) { // The last lines take longest, so they start first.
		rows = append(rows, strconv.Itoa(line.Line))
	}
	seeds := o.SeedsOr(map[study.Profile]int{study.Smoke: 1, study.Quick: 5, study.Real: 5, study.Full: 3}[o.Profile])
	if err := study.CheckSeeds(seeds, config.Shares); err != nil {
		return nil, err
	}
	var cells []study.Cell[maintable.Config]
	for _, row := range rows {
		for seed := range seeds {
			cells = append(cells, newCell(dataset, row, seed, config))
		}
	}
	return cells, nil
}

// needs returns the cell that a line starts from.
func needs(c study.Cell[maintable.Config]) []study.Cell[maintable.Config] {
	if _, ok := lineOf(c); !ok {
		return nil
	}
	row := recipe.RowAlignment
	if c.Config.Init != "" {
		row = recipe.RowInit
	}
	return []study.Cell[maintable.Config]{newCell(c.Dataset, row, c.Seed, c.Config)}
}

// folder is the folder of a cell's files. The cells of a seed share a folder, whose name depends on the training but not on the evaluation.
func folder(d maintable.Data, c study.Cell[maintable.Config]) string {
	trained := recipe.Config{First: c.Config.First, Second: c.Config.Second, Images: c.Config.Images}
	name := stageOf(c).Name
	if c.Row == recipe.RowRandom {
		name = "random"
	}
	return filepath.Join("cells", fmt.Sprintf("seed%d-%s", c.Seed, study.Hash(study.EncodeConfig(trained), []byte(d.Identity()))), name)
}

// Study is the experiment.
var Study = training.Spec(maintable.Spec(study.Spec[maintable.Config, maintable.Data]{
	Info: study.Info{
		Name:       Name,
		Title:      "What does each part of the method contribute for images, and what for patches?",
		Reproduces: "Tab. ablation; claims C13–C18",
		Labels:     []string{"ablation"},
		Data:       "synthetic objects and scenes; with --data images of ImageNet (imagenet/) and COCO (coco/), evaluated where there are labels, in real those of PASCAL VOC",
		Reads:      []string{"imagenet", "coco"},
		Cost: map[study.Profile]string{
			study.Smoke: "about a minute on 2 cores",
			study.Quick: "about 40 minutes on 2 cores; on photographs ten hours, or three and a half from one start by --set init=FILE",
			study.Real:  "about eleven hours on 2 cores",
			study.Full:  "33 times ViT-S/16, 100k steps of 256 images: 2.6e18 FLOP each, days on a GPU",
		},
	},
	Parts: []string{"dataset", "row", "seed"},
	Cells: cells,
	Open: func(o study.Options, _ string, cells []study.Cell[maintable.Config]) (maintable.Data, error) {
		return maintable.Open(o, cells[0].Config, cells[0].Seed)
	},
	Numbers: func(d maintable.Data, c study.Cell[maintable.Config]) []study.Number {
		numbers := d.Numbers(c.Row, c.Config)
		if c.Row == filteredRow {
			numbers = append(numbers, d.Numbers(beforeRow, c.Config)...)
		}
		return numbers
	},
	Needs:  needs,
	Folder: folder,
	Ran: func(c study.Cell[maintable.Config]) (ran maintable.Config, derived bool) {
		ran = c.Config
		if _, derived = lineOf(c); derived {
			ran.Second = stageOf(c).Config
		}
		return ran, derived
	},
	ProfileConfig: func(r study.Record, config maintable.Config) maintable.Config {
		c := maintable.ProfileConfig(r.Profile, r.Kind == figures.Real)
		c.Config = recipe.Defaults(r, config.Config)
		return c
	},
	Tables:  study.ByKind(tables),
	Figures: drawn,
	Random:  recipe.RowRandom,
}))

// run is a running cell.
type run = study.Run[maintable.Config, maintable.Data]

// training is how cells train.
var training = recipe.Cells[maintable.Config, maintable.Data]{
	Stage:  stageOf,
	Base:   func(r *run) (recipe.Data, recipe.Config) { return r.Data.Data, r.Cell.Config.Config },
	Record: record,
}

// stageOf returns the stage of a cell: a line, or what all lines of a seed begin from, or random weights.
func stageOf(c study.Cell[maintable.Config]) recipe.Stage {
	config := c.Config
	s := recipe.Stage{Name: "first", Config: config.First, Neighbours: recipe.NeighboursFile}
	if line, ok := lineOf(c); ok {
		s = config.Stage(fmt.Sprintf("line%d", line.Line), line.Config(config.Second), filepath.Join("first", recipe.FinalFile))
		if s.Config.Lambdas.ImageConcentration > 0 {
			s.Neighbours = recipe.NeighboursFile
		}
	}
	switch c.Row {
	case recipe.RowRandom:
		s.Untrained, s.Neighbours = true, ""
	case recipe.RowInit: // This encoder has no filter, because the file has none.
		s = config.Stage("init", config.Control(), "")
		s.Neighbours, s.Untrained = recipe.NeighboursFile, true
	}
	return s
}

// record measures the online branch, and line 7 also with the filter left out, and records each column.
func record(r *run, t *recipe.Trainer) error {
	err := recordRow(r, r.Cell.Row, t.Frozen)
	if err != nil || r.Cell.Row != filteredRow {
		return err
	}
	before, err := t.Extractor(false)
	if err != nil {
		return err
	}
	defer before.Close()
	return recordRow(r, beforeRow, before)
}

func recordRow(r *run, row string, frozen *evaluation.FeatureExtractor) error {
	dir := r.Dir
	if stageOf(r.Cell).Untrained {
		dir = ""
	}
	numbers, err := recipe.Measured(r, row, dir, frozen, func(e *evaluation.Encoder) ([]study.Number, error) {
		return r.Data.Measure(r.Context, e, r.Cell.Config)
	})
	for _, n := range numbers {
		delete(n.Details, "within_classes") // The curve has them.
		delete(n.Details, "between_classes")
	}
	return cmp.Or(err, r.Record(numbers...))
}
