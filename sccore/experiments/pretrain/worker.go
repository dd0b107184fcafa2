package pretrain

import (
	"os"
	"path/filepath"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// run is a running cell.
type run = study.Run[recipe.Config, recipe.Data]

// worker runs cells with two stages and the control of the second, each compiled once.
type worker struct{ first, control, second *recipe.Stage }

// Close frees the device's memory.
func (w *worker) Close() {
	w.first.Close()
	w.control.Close()
	w.second.Close()
}

// compile compiles the stages that the cell needs.
func (w *worker) compile(r *run) (err error) {
	c := r.Cell.Config
	if w.first == nil && c.Init == "" {
		if w.first, err = recipe.NewStage(r.Backend(), "first", r.Data.Train, c.First); err != nil {
			return err
		}
	}
	if w.control == nil && r.Wants(recipe.RowControl) {
		if w.control, err = recipe.NewStage(r.Backend(), "control", r.Data.Train, c.Control()); err != nil {
			return err
		}
	}
	if w.second == nil {
		if w.second, err = recipe.NewStage(r.Backend(), "second", r.Data.Train, c.Second); err != nil {
			return err
		}
	}
	for _, stage := range []*recipe.Stage{w.first, w.control, w.second} {
		if stage != nil {
			if err := stage.SetData(r.Data.Train); err != nil {
				return err
			}
			recipe.Report(r, stage)
		}
	}
	return nil
}

// Run trains both stages of a cell, and measures the initial encoder and the encoder after each stage.
func (w *worker) Run(r *run) error {
	if err := w.compile(r); err != nil {
		return err
	}
	c, seed := r.Cell.Config, uint64(r.Cell.Seed)
	from := filepath.Join(r.Dir, "first", recipe.FinalFile)
	if c.Init != "" {
		from = c.Init
	}
	start := func(s *recipe.Stage) func() error {
		return func() error { return s.Trainer.BeginFrom(from, seed, c.Patterns()...) }
	}
	if c.Init != "" {
		if err := w.fromFile(r, start(w.second)); err != nil {
			return err
		}
	} else if err := w.alignment(r); err != nil {
		return err
	}
	if r.Wants(recipe.RowControl) {
		if err := w.goOn(r, recipe.RowControl, w.control, start(w.control)); err != nil {
			return err
		}
	}
	return w.goOn(r, recipe.RowMethod, w.second, start(w.second))
}

// goOn trains a stage that begins where the first has ended, and records it.
func (w *worker) goOn(r *run, row string, s *recipe.Stage, start func() error) error {
	dir := filepath.Join(r.Dir, s.Name)
	if err := recipe.TrainStage(r, s, dir, start, s.Evaluators(r.Backend(), r.Data, r.Cell.Config, r.Cell.Seed)); err != nil {
		return err
	}
	return w.record(r, row, s.Frozen, dir)
}

// alignment trains the first stage and finds the neighbours with its encoder.
func (w *worker) alignment(r *run) error {
	seed, dir := uint64(r.Cell.Seed), filepath.Join(r.Dir, w.first.Name)
	begin := func() error { return w.first.Trainer.Begin(seed) }
	if r.Wants(recipe.RowRandom) {
		if err := begin(); err != nil {
			return err
		}
		if err := w.record(r, recipe.RowRandom, w.first.Frozen, ""); err != nil {
			return err
		}
	}
	if err := recipe.TrainStage(r, w.first, dir, begin, w.first.Evaluators(r.Backend(), r.Data, r.Cell.Config, r.Cell.Seed)); err != nil {
		return err
	}
	if err := w.neighbours(r, w.first.Frozen); err != nil {
		return err
	}
	return w.record(r, recipe.RowAlignment, w.first.Frozen, dir)
}

// fromFile finds the neighbours with the encoder of a file and measures it, and random weights beside it.
func (w *worker) fromFile(r *run, start func() error) error {
	_, err := os.Stat(filepath.Join(r.Dir, recipe.NeighboursFile))
	if !r.Wants(recipe.RowInit) && !r.Wants(recipe.RowRandom) && err == nil {
		return w.neighbours(r, nil)
	}
	// Starting the trainer requires neighbours, but only the encoder is used here, so any will do.
	w.second.Trainer.SetNeighbours(&knn.Neighbours{K: 1, Indices: make([]int32, r.Data.Train.Objects.Len())})
	if err := start(); err != nil {
		return err
	}
	if err := w.neighbours(r, w.second.Frozen); err != nil {
		return err
	}
	frozen, err := w.second.Unfiltered(r.Backend())
	if err != nil {
		return err
	}
	defer frozen.Close()
	if err := w.saveStart(r, frozen.ViT); err != nil { // Before the record, so that a run that is killed in between writes it again.
		return err
	}
	if err := w.record(r, recipe.RowInit, frozen, ""); err != nil || !r.Wants(recipe.RowRandom) {
		return err
	}
	if err := w.second.Trainer.Begin(uint64(r.Cell.Seed)); err != nil {
		return err
	}
	return w.record(r, recipe.RowRandom, frozen, "")
}

// saveStart writes the encoder of the file as [recipe.EncoderFile] names it, for the experiments that evaluate encoders: the file itself may hold a whole trainer, and move.
func (w *worker) saveStart(r *run, vit encoder.ViT) error {
	if !r.Wants(recipe.RowInit) {
		return nil
	}
	file := filepath.Join(r.Dir, "init", recipe.OnlineFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	_, store, scope := w.second.Trainer.Encoder(sccore.Online)
	return weights.ExportViT(file, store, scope, vit, nil, map[string]string{
		"run": r.Cell.Name(), "stage": "init", "config": string(study.EncodeConfig(r.Cell.Config)),
	})
}

// neighbours gives the second stage the neighbours that it draws positives from.
func (w *worker) neighbours(r *run, frozen *evaluation.FeatureExtractor) error {
	if r.Cell.Config.Second.Lambdas.ImageConcentration == 0 {
		return nil
	}
	neighbours, err := recipe.Neighbours(r, r.Dir, frozen, r.Data, r.Cell.Config)
	if err != nil {
		return err
	}
	w.second.Trainer.SetNeighbours(neighbours)
	return nil
}

// record measures an encoder and records its numbers. dir is the folder of the stage that trained it, or empty.
func (w *worker) record(r *run, row string, frozen *evaluation.FeatureExtractor, dir string) (err error) {
	if !r.Wants(row) {
		return nil
	}
	r.Say("measuring %s", row)
	numbers, err := measure(r.Context, r.Backend(), frozen, r.Data, r.Cell.Config, r.Cell.Seed)
	if err != nil {
		return err
	}
	curve, details := "", map[string]float64{}
	if dir != "" {
		if curve, details, err = recipe.CurveOf(r, dir); err != nil {
			return err
		}
	}
	left := "" // The encoder's file.
	if dir != "" {
		left, err = r.Path(filepath.Join(filepath.Base(dir), recipe.OnlineFile))
	} else if row == recipe.RowInit {
		left, err = r.Path(filepath.Join("init", recipe.OnlineFile))
	}
	if err != nil {
		return err
	}
	for i := range numbers {
		n := &numbers[i]
		n.Row, n.Curve, n.Encoder, n.Details = row, curve, left, details
		n.Protocol += ", online branch"
	}
	if dir != "" { // Before the record, so that a run that is killed in between writes it again.
		if err := writeCard(r, dir, frozen.ViT, numbers); err != nil {
			return err
		}
	}
	return r.Record(numbers...)
}
