package ablation

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/study"
)

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
	switch rowOf(c) {
	case recipe.RowRandom:
		s.Untrained, s.Neighbours = true, ""
	case recipe.RowInit: // This encoder has no filter, because the file has none.
		s = config.Stage("init", config.Control(), "")
		s.Neighbours, s.Untrained = recipe.NeighboursFile, true
	}
	return s
}

// record measures the online branch and records each column.
func record(r *run, t *recipe.Trainer) error {
	row := rowOf(r.Cell)
	err := recordRow(r, row, t.Frozen)
	if err != nil || row != filteredRow {
		return err
	}
	before, err := t.Extractor(false)
	if err != nil {
		return err
	}
	defer before.Close()
	return recordRow(r, beforeRow, before)
}

// recordRow measures an encoder and records each column of a row.
func recordRow(r *run, row string, frozen *evaluation.FeatureExtractor) error {
	dir := r.Dir
	if !r.Wants(row) {
		return nil
	}
	if stageOf(r.Cell).Untrained {
		dir = ""
	}
	numbers, err := recipe.Measured(r, row, dir, func() ([]study.Number, error) {
		return r.Data.Measure(r.Context, &evaluation.Encoder{FeatureExtractor: frozen, Seed: uint64(r.Cell.Seed)}, r.Cell.Config)
	})
	for _, n := range numbers {
		delete(n.Details, "within_classes") // The curve has them.
		delete(n.Details, "between_classes")
	}
	return cmp.Or(err, r.Record(numbers...))
}
