// Package recipe trains with the paper's method in stages ("Training pipeline"). A [Stage] is a training as a value: what it starts from, what it trains with, and
// the neighbours that it draws positives from. A [Trainer] runs stages of one shape, with curves, the best encoder and the diagnostics on the way. The experiments
// that train, and training on a folder of photographs, list stages and say what is recorded of them.
package recipe

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
)

// Files in a stage's folder besides the checkpoints. bestFile exists only with labels; see [improved].
const (
	// NeighboursFile holds neighbours, in the folder that the stages of a run share.
	NeighboursFile = "neighbours.safetensors"
	FinalFile      = "final.safetensors" // The last checkpoint.
	OnlineFile     = "online.safetensors"
	targetFile     = "target.safetensors"
	bestFile       = "best.safetensors"
)

// Stage is a training as a value. Files of other stages are named relative to the folder that the stages of a run share.
type Stage struct {
	Name       string        // Names the stage's folder, and cells that share a compiled step.
	Config     sccore.Config // What it trains with.
	After      string        // The file of the stage that it starts from, such as "first/final.safetensors"; empty for Init.
	Init       string        // A file of weights that it starts from; empty for random weights, which the seed draws.
	Ignore     []string      // Patterns of the keys in Init that are left out.
	Untrained  bool          // The stage is what it starts from: nothing is trained.
	Neighbours string        // The file of neighbours: a stage that draws positives reads them, and another one finds them with its encoder. Empty for none.
}

// Steps is the number of steps that the stage trains.
func (s Stage) Steps() int { return lo.Ternary(s.Untrained, 0, s.Config.Steps) }

// FLOPs is what the stage computes in products on objects and scenes; see [sccore.Config.FLOPs].
func (s Stage) FLOPs() float64 { return float64(s.Steps()) * s.Config.FLOPs() }

// drawsPositives reports whether the stage needs neighbours.
func (s Stage) drawsPositives() bool { return s.Config.Lambdas.ImageConcentration > 0 }

// Trainer is the compiled step of a stage, with the encoder that is measured: the online branch's, as in the paper ("Evaluation protocol"). It serves all
// stages of the same shape.
type Trainer struct {
	*sccore.Trainer
	Frozen *evaluation.FeatureExtractor

	backend compute.Backend
}

// New compiles a stage.
func New(b compute.Backend, data sccore.Data, s Stage) (*Trainer, error) {
	trainer, err := sccore.NewTrainer(b, data, s.Config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	t := &Trainer{Trainer: trainer, backend: b}
	t.Frozen, err = t.Extractor(true)
	return t, err
}

// Extractor returns an extractor of the encoder. Without the filter it serves before training, when the filter has random weights, which would change the features of
// a file. The caller closes it.
func (t *Trainer) Extractor(filter bool) (*evaluation.FeatureExtractor, error) {
	vit, store, scope := t.Encoder(sccore.Online)
	if !filter {
		vit.Prototypes = 0
	}
	frozen, err := evaluation.NewFeatureExtractor(t.backend, vit, store, scope, evaluation.EncodeBatch)
	if err == nil && t.Frozen != nil {
		frozen.Skipped = t.Frozen.Skipped
	}
	return frozen, err
}

// Report makes skip receive the images that cannot be read, in training and in measuring.
func (t *Trainer) Report(skip func(file, reason string)) {
	t.Skipped = func(image datasets.Skipped) { skip(image.File, image.Reason) }
	t.Frozen.Skipped = t.Skipped
}

// Close frees the device's memory.
func (t *Trainer) Close() {
	t.Frozen.Close()
	t.Trainer.Close()
}

// Start sets the weights that a stage starts from. root is the folder that the stages of a run share.
func (t *Trainer) Start(s Stage, root string, seed uint64) error {
	switch {
	case s.After != "":
		return t.BeginFrom(filepath.Join(root, s.After), seed)
	case s.Init != "":
		return t.BeginFrom(s.Init, seed, s.Ignore...)
	}
	return t.Begin(seed)
}

// Neighbours are the neighbours of object-centric images: a positive is drawn from the nearest images by [CLS] features.
type Neighbours struct {
	Path   string          // The file that keeps them.
	Source string          // Says which images were compared, and by which run.
	Images datasets.Source // The object-centric images.
	Size   int             // Height and width in pixels at which they are encoded.
	Count  int             // How many neighbours an image has, if there are as many.
	Bar    progress.Bar    // Shows how many images are encoded.
}

// Find reads the neighbours from their file. If there is no file, it finds them with a frozen encoder, if there is one, and writes the file.
func (n Neighbours) Find(ctx context.Context, b compute.Backend, frozen *evaluation.FeatureExtractor) (*knn.Neighbours, error) {
	return knn.Stored(ctx, b, n.Path, n.Images.Len(), n.Count, n.Source, func() (class []float32, dim int, err error) {
		defer try.Handle(&err)
		if frozen == nil {
			return nil, 0, fmt.Errorf("%s: there are no neighbours yet", n.Path)
		}
		images := evaluation.ImagesOf(n.Images, frozen.Preprocessing, n.Size, n.Images.Len(), frozen.Skipped)
		for features, err := range frozen.Extract(images, evaluation.Outputs{}) {
			try.E(cmp.Or(err, ctx.Err()))
			class = append(class, features[0].Class...)
			n.Bar.Set(len(class)/frozen.ViT.Dim, "")
		}
		return class, frozen.ViT.Dim, nil
	})
}

// StartForEncoder is Start for a stage whose encoder has yet to find the neighbours that Start requires: until then, placeholders take their place.
func (t *Trainer) StartForEncoder(s Stage, root string, seed uint64, images int) error {
	t.SetNeighbours(&knn.Neighbours{K: 1, Indices: make([]int32, images)})
	return t.Start(s, root, seed)
}

// Cells train one stage each. The folders of a seed's cells lie in one folder, which the cells share.
type Cells[C comparable, D study.Data] struct {
	// Stage is what a cell trains.
	Stage func(c study.Cell[C]) Stage
	// Base returns a cell's data and the configuration of what measures its encoder.
	Base func(r *study.Run[C, D]) (Data, Config)
	// Evaluators returns evaluators beside the ones of the function [Evaluators]. Optional.
	Evaluators func(r *study.Run[C, D], t *Trainer) []train.Evaluator
	// Record records the numbers of the trained encoder.
	Record func(r *study.Run[C, D], t *Trainer) error
}

// Spec fills in what the stages of a study's cells say: how long a cell trains, which cells share a compiled step, and the worker.
func (c Cells[C, D]) Spec(s study.Spec[C, D]) study.Spec[C, D] {
	s.Steps = func(_ D, cell study.Cell[C]) int { return c.Stage(cell).Steps() }
	s.FLOPs = func(cell study.Cell[C]) float64 { return c.Stage(cell).FLOPs() }
	s.Shares = func(cell study.Cell[C]) string { return c.Stage(cell).Name }
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

// Run trains the stage of a cell and records the encoder.
func (w *worker[C, D]) Run(r *study.Run[C, D]) (err error) {
	defer try.Handle(&err)
	data, config := w.cells.Base(r)
	try.E(w.SetData(data.Train))
	w.Report(r.Skip)
	var more []train.Evaluator
	if w.cells.Evaluators != nil {
		more = w.cells.Evaluators(r, w.Trainer)
	}
	try.E(Train(r, w.Trainer, w.cells.Stage(r.Cell), r.Dir, data, config, more...))
	return w.cells.Record(r, w.Trainer)
}

// Train completes a stage of a run in the folder dir, or sets its start if nothing is trained. It reads the neighbours that the stage draws positives from, or finds
// neighbours with its encoder if the stage does. More are evaluators beside the ones of the function [Evaluators].
func Train[C comparable, D study.Data](r *study.Run[C, D], t *Trainer, s Stage, dir string, data Data, c Config, more ...train.Evaluator) (err error) {
	defer try.Handle(&err)
	neighbours := data.Neighbours(filepath.Join(filepath.Dir(dir), s.Neighbours), r.Cell.Seed, c)
	if s.drawsPositives() {
		t.SetNeighbours(try.E1(neighbours.Find(r.Context, r.Backend(), nil)))
	}
	if s.Untrained {
		try.E(t.Start(s, filepath.Dir(dir), uint64(r.Cell.Seed)))
	} else {
		try.E(learn(r, t, s, dir, data, c, more))
	}
	if s.Neighbours != "" && !s.drawsPositives() {
		r.Say("finding neighbours")
		try.E1(neighbours.Find(r.Context, r.Backend(), t.Frozen))
	}
	return nil
}

// Neighbours are the neighbours of a seed's objects, which a file keeps.
func (d Data) Neighbours(path string, seed int, c Config) Neighbours {
	return Neighbours{
		Path: path, Source: fmt.Sprintf("%s/seed%d, %s", d.Title(), seed, d.Identity()), Images: d.Train.Objects, Size: c.Size, Count: c.Second.Neighbours,
		Bar: progress.Discard,
	}
}

// learn trains a stage from its last checkpoint or its start, and saves its curve and its encoders in its folder. During the training run its diagnostics, every
// [Config].GradientsEvery steps, the ones of [Evaluators], and more.
func learn[C comparable, D study.Data](r *study.Run[C, D], t *Trainer, s Stage, dir string, data Data, c Config, more []train.Evaluator) (err error) {
	defer try.Handle(&err)
	save := func(branch sccore.Branch, file string) error {
		return t.SaveEncoder(filepath.Join(dir, file), branch, map[string]string{
			"run": r.Cell.Name(), "stage": s.Name, "step": fmt.Sprint(t.Done()), "config": string(study.EncodeConfig(r.Cell.Config)),
		})
	}
	var curve []sccore.StepMetrics
	loop := train.Loop[sccore.StepMetrics]{
		Trainer: t.Trainer, Dir: dir, Final: FinalFile, Note: &curve,
		Evaluators: slices.Concat([]train.Evaluator{t.DiagnosticsEvaluator(c.GradientsEvery)}, Evaluators(t.Frozen, data, c, r.Cell.Seed), more),
		Start: func() (err error) {
			defer try.Handle(&err)
			try.E(t.Start(s, filepath.Dir(dir), uint64(r.Cell.Seed)))
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
	try.E(study.Train(r, &loop))
	for file, branch := range map[string]sccore.Branch{OnlineFile: sccore.Online, targetFile: sccore.Target} {
		try.E(save(branch, file))
	}
	return loop.Clean()
}

// Measured measures the encoder of a row, unless its numbers are recorded, and adds to them the curve of the stage that trained it and details of its end. dir is the
// folder of that stage, or empty for a start.
func Measured[C comparable, D study.Data](r *study.Run[C, D], row, dir string, frozen *evaluation.FeatureExtractor, measures []Measure) (numbers []study.Number, err error) {
	defer try.Handle(&err)
	if !r.Wants(row) {
		return nil, nil
	}
	r.Say("measuring %s", row)
	numbers = try.E1(MeasureAll(r.Context, &evaluation.Encoder{FeatureExtractor: frozen, Seed: uint64(r.Cell.Seed)}, measures))
	curve, details := "", map[string]float64{}
	if dir != "" {
		curve, details = try.E2(curveOf(r, dir))
	}
	for i := range numbers {
		numbers[i].Row, numbers[i].Curve, numbers[i].Details = row, curve, details
		numbers[i].Protocol += ", online branch"
	}
	return numbers, nil
}
