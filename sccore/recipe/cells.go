package recipe

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
)

// Cells train one stage each. The cells of a seed share the folder that theirs lie in.
type Cells[C comparable, D study.Data] struct {
	// Stage is what a cell trains.
	Stage func(c study.Cell[C]) Stage
	// Base returns a cell's data and the configuration of what measures its encoder.
	Base func(r *study.Run[C, D]) (Data, Config)
	// Evaluators returns evaluators beside the ones of the function [Evaluators]. Optional.
	Evaluators func(r *study.Run[C, D], t *Trainer) []train.Evaluator
	// Record records what has become of the encoder.
	Record func(r *study.Run[C, D], t *Trainer) error
}

// Spec fills in what the stages of a study's cells say: how long a cell trains, which cells share a compiled step, and the worker. Each seed has its own data.
func (c Cells[C, D]) Spec(s study.Spec[C, D]) study.Spec[C, D] {
	s.Steps = func(_ D, cell study.Cell[C]) int { return c.Stage(cell).Steps() }
	s.FLOPs = func(cell study.Cell[C]) float64 { return c.Stage(cell).FLOPs() }
	s.Shares = func(cell study.Cell[C]) string { return c.Stage(cell).Name }
	s.BySeed = study.EachSeed
	if s.NewWorker == nil {
		s.NewWorker = c.NewWorker
	}
	return s
}

// NewWorker compiles the stage of a cell.
func (c Cells[C, D]) NewWorker(r *study.Run[C, D]) (study.Worker[C, D], error) {
	r.Say("compiling")
	data, _ := c.Base(r)
	t, err := New(r.Backend(), data.Train, c.Stage(r.Cell))
	return &worker[C, D]{t, c}, err
}

type worker[C comparable, D study.Data] struct {
	*Trainer
	cells Cells[C, D]
}

// Run trains the stage of a cell, or sets its start, finds the neighbours if the stage does, and records the encoder.
func (w *worker[C, D]) Run(r *study.Run[C, D]) error {
	s, root := w.cells.Stage(r.Cell), filepath.Dir(r.Dir)
	data, config := w.cells.Base(r)
	if err := w.SetData(data.Train); err != nil {
		return err
	}
	w.Report(r.Skip)
	neighbours := data.Neighbours(filepath.Join(root, s.Neighbours), r.Cell.Seed, config)
	if s.drawsPositives() {
		found, err := neighbours.Find(r.Context, r.Backend(), nil)
		if err != nil {
			return err
		}
		w.SetNeighbours(found)
	}
	if s.Untrained {
		if err := w.Start(s, root, uint64(r.Cell.Seed)); err != nil {
			return err
		}
	} else {
		var more []train.Evaluator
		if w.cells.Evaluators != nil {
			more = w.cells.Evaluators(r, w.Trainer)
		}
		if err := Train(r, w.Trainer, s, r.Dir, data, config, more...); err != nil {
			return err
		}
	}
	if s.Neighbours != "" && !s.drawsPositives() {
		r.Say("finding neighbours")
		if _, err := neighbours.Find(r.Context, r.Backend(), w.Frozen); err != nil {
			return err
		}
	}
	return w.cells.Record(r, w.Trainer)
}

// Neighbours are the neighbours of a seed's objects, which a file keeps.
func (d Data) Neighbours(path string, seed int, c Config) Neighbours {
	return Neighbours{
		Path: path, Source: fmt.Sprintf("%s/seed%d, %s", d.Title(), seed, d.Identity()), Images: d.Train.Objects, Size: c.Size, Count: c.Second.Neighbours,
		Bar: progress.Discard,
	}
}

// Train completes a stage of a run in the folder dir, from its last checkpoint or its start, and saves its curve and its encoders there. During the training
// run its diagnostics, every [Config].GradientsEvery steps, the ones of [Evaluators], and more.
func Train[C comparable, D study.Data](r *study.Run[C, D], t *Trainer, s Stage, dir string, data Data, c Config, more ...train.Evaluator) error {
	save := func(branch sccore.Branch, file string) error {
		return t.SaveEncoder(filepath.Join(dir, file), branch, map[string]string{
			"run": r.Cell.Name(), "stage": s.Name, "step": fmt.Sprint(t.Done()), "config": string(study.EncodeConfig(r.Cell.Config)),
		})
	}
	var curve []sccore.StepMetrics
	loop := train.Loop[sccore.StepMetrics]{
		Trainer: t.Trainer, Dir: dir, Final: FinalFile, Note: &curve,
		Evaluators: slices.Concat([]train.Evaluator{t.DiagnosticsEvaluator(c.GradientsEvery)}, Evaluators(t.Frozen, data, c, r.Cell.Seed), more),
		Start: func() error {
			if err := t.Start(s, filepath.Dir(dir), uint64(r.Cell.Seed)); err != nil {
				return err
			}
			if data.Train.Labels == nil { // Nothing to judge correspondences by, and the graph takes long to compile.
				return nil
			}
			return t.measureGate(r.Context, s, dir, r.Say)
		},
	}
	loop.After = func(m sccore.StepMetrics, evaluated map[string]float64) error {
		m.Evaluated = evaluated
		r.Step("%s  %s", s.Name, Describe(m))
		if m.Class == nil && evaluated == nil && t.Done() < t.Trainer.Steps() {
			return nil
		}
		curve = append(curve, m)
		if err := study.WriteCurve(filepath.Join(dir, CurveFile), curve); err != nil {
			return err
		}
		if watch := r.Options().Watch; watch != nil {
			watch(r.Cell.Name()+"/"+s.Name, Points(curve))
		}
		if improved(curve) {
			return save(sccore.Online, bestFile)
		}
		return nil
	}
	if err := study.Train(r, &loop); err != nil {
		return err
	}
	for file, branch := range map[string]sccore.Branch{OnlineFile: sccore.Online, targetFile: sccore.Target} {
		if err := save(branch, file); err != nil {
			return err
		}
	}
	return loop.Clean()
}

// Measured measures the encoder of a row, unless its numbers are recorded, and adds to them the curve of the stage that trained it and details of its end. dir is the
// folder of that stage, or empty for a start.
func Measured[C comparable, D study.Data](
	r *study.Run[C, D], row, dir string, frozen *evaluation.FeatureExtractor, measure func(*evaluation.Encoder) ([]study.Number, error),
) (numbers []study.Number, err error) {
	if !r.Wants(row) {
		return nil, nil
	}
	r.Say("measuring %s", row)
	if numbers, err = measure(&evaluation.Encoder{FeatureExtractor: frozen, Seed: uint64(r.Cell.Seed)}); err != nil {
		return nil, err
	}
	curve, details := "", map[string]float64{}
	if dir != "" {
		if curve, details, err = curveOf(r, dir); err != nil {
			return nil, err
		}
	}
	for i := range numbers {
		numbers[i].Row, numbers[i].Curve, numbers[i].Details = row, curve, details
		numbers[i].Protocol += ", online branch"
	}
	return numbers, nil
}
