package ablation

import (
	"fmt"
	"path/filepath"

	"github.com/semcon/semcon/sccore"
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
	config, row := c.Config, rowOf(c)
	s := recipe.Stage{Name: "first", Config: config.First, Neighbours: recipe.NeighboursFile}
	if line, ok := lineOf(c); ok {
		s.Name, s.Config = fmt.Sprintf("line%d", line.Line), line.Config(config.Second)
		s.After, s.Init, s.Ignore = filepath.Join("first", recipe.FinalFile), config.Init, config.Patterns()
		if s.Init != "" {
			s.After = ""
		}
		if s.Config.Lambdas.ImageConcentration == 0 {
			s.Neighbours = ""
		}
	}
	switch row {
	case recipe.RowRandom:
		s.Untrained, s.Neighbours = true, ""
	case recipe.RowInit: // This encoder has no filter, because the file has none.
		s.Name, s.Config, s.Init, s.Ignore, s.Untrained = "init", sccore.Ablations[2].Config(config.Second), config.Init, config.Patterns(), true
	}
	return s
}

// record measures the online branch and records each column.
func record(r *run, t *recipe.Trainer) error {
	dir := r.Dir
	if stageOf(r.Cell).Untrained {
		dir = ""
	}
	return recipe.Record(r, rowOf(r.Cell), dir, func() ([]study.Number, error) {
		return r.Data.Measure(r.Context, r.Backend(), t.Frozen, r.Cell.Config, r.Cell.Seed)
	}, func(_ []study.Number, details map[string]float64) error {
		delete(details, "within_classes") // The curve has them.
		delete(details, "between_classes")
		return nil
	})
}
