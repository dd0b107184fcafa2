package ablation

import (
	"fmt"
	"path/filepath"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// run is a running cell.
type run = study.Run[Config, Data]

// worker trains the cells of one row with one compiled step.
type worker struct{ stage *recipe.Stage }

func newWorker(r *run) (study.Worker[Config, Data], error) {
	name, config := stageOf(r.Cell)
	r.Say("compiling")
	stage, err := recipe.NewStage(r.Backend(), name, r.Data.Train, config)
	return worker{stage}, err
}

// Close frees the device's memory.
func (w worker) Close() { w.stage.Close() }

// stageOf returns the stage of a cell: its name, which also names its folder, and its configuration.
func stageOf(c study.Cell[Config]) (name string, config sccore.Config) {
	if line, ok := lineOf(c); ok {
		return fmt.Sprintf("line%d", line.Line), line.Config(c.Config.Second)
	}
	if rowOf(c) == recipe.RowInit { // This encoder has no filter, because the file has none.
		return "init", sccore.Ablations[2].Config(c.Config.Second)
	}
	return "first", c.Config.First
}

// Run trains and measures a line; or what all lines of a seed begin from; or it measures random weights.
func (w worker) Run(r *run) error {
	c, seed, t := r.Cell.Config, uint64(r.Cell.Seed), w.stage.Trainer
	if err := w.stage.SetData(r.Data.Train); err != nil {
		return err
	}
	recipe.Report(r, w.stage)
	shared := filepath.Dir(r.Dir) // By the stages of a seed.
	evaluators := w.stage.Evaluators(r.Backend(), r.Data.Data, c.Config, r.Cell.Seed)
	switch row := rowOf(r.Cell); row {
	case recipe.RowRandom:
		if err := t.Begin(seed); err != nil {
			return err
		}
		return w.record(r, "")
	case recipe.RowInit:
		if err := t.BeginFrom(c.Init, seed, c.Patterns()...); err != nil {
			return err
		}
		return w.recordStart(r, shared, "")
	case recipe.RowAlignment:
		if err := recipe.TrainStage(r, w.stage, r.Dir, func() error { return t.Begin(seed) }, evaluators); err != nil {
			return err
		}
		return w.recordStart(r, shared, r.Dir)
	}
	if t.Config().Lambdas.ImageConcentration > 0 {
		neighbours, err := recipe.Neighbours(r, shared, nil, r.Data.Data, c.Config)
		if err != nil {
			return err
		}
		t.SetNeighbours(neighbours)
	}
	from := c.Init
	if from == "" {
		from = filepath.Join(shared, "first", recipe.FinalFile)
	}
	if err := recipe.TrainStage(r, w.stage, r.Dir, func() error { return t.BeginFrom(from, seed, c.Patterns()...) }, evaluators); err != nil {
		return err
	}
	return w.record(r, r.Dir)
}

// recordStart measures and records the encoder that the lines of a seed start from, and finds the neighbours with it.
func (w worker) recordStart(r *run, shared, dir string) error {
	if _, err := recipe.Neighbours(r, shared, w.stage.Frozen, r.Data.Data, r.Cell.Config.Config); err != nil {
		return err
	}
	return w.record(r, dir)
}

// record measures the online branch and records each column. dir is the folder of the stage that trained it, or empty.
func (w worker) record(r *run, dir string) (err error) {
	row := rowOf(r.Cell)
	if !r.Wants(row) {
		return nil
	}
	r.Say("measuring")
	curve, details := "", map[string]float64{}
	if dir != "" {
		if curve, details, err = recipe.CurveOf(r, dir); err != nil {
			return err
		}
		delete(details, "within_classes") // The curve has them.
		delete(details, "between_classes")
	}
	numbers, err := r.Data.Measure(r.Context, r.Backend(), w.stage.Frozen, r.Cell.Config, r.Cell.Seed)
	if err != nil {
		return err
	}
	for i := range numbers {
		numbers[i].Row, numbers[i].Details, numbers[i].Curve = row, details, curve
		numbers[i].Protocol += ", online branch"
	}
	return r.Record(numbers...)
}
