package extendedtraining

import (
	"cmp"
	"path/filepath"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/selfdistillation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
)

// encoderFile is in a cell's folder. The arms start from the encoder of the start's teacher.
const encoderFile = "encoder.safetensors"

// run is a running cell.
type run = study.Run[Config, maintable.Data]

// arms is how the method and its alignment losses train from the encoder of a baseline.
var arms = recipe.Cells[Config, maintable.Data]{
	Stage: func(c study.Cell[Config]) recipe.Stage {
		s := recipe.Stage{Name: "alignment", Config: c.Config.First, After: filepath.Join(rowStart, encoderFile)}
		if c.Row == rowMethod {
			s.Name, s.Config = "method", c.Config.Second
		}
		if s.Config.Lambdas.ImageConcentration > 0 {
			s.Neighbours = filepath.Join(rowStart, recipe.NeighboursFile)
		}
		return s
	},
	Base:   func(r *run) (recipe.Data, recipe.Config) { return r.Data.Data, r.Cell.Config.Config.Config },
	Record: func(r *run, t *recipe.Trainer) error { return record(r, t.Frozen, "online branch") },
}

func newWorker(r *run) (_ study.Worker[Config, maintable.Data], err error) {
	defer try.Handle(&err)
	if r.Cell.Row == rowAlignment || r.Cell.Row == rowMethod {
		return arms.NewWorker(r)
	}
	r.Say("compiling")
	trainer := try.E1(selfdistillation.NewTrainer(r.Backend(), images(r.Data, rowMixture), r.Cell.Config.Own))
	w := baseline{trainer: trainer, frozen: map[sccore.Branch]*evaluation.FeatureExtractor{}}
	for _, branch := range []sccore.Branch{sccore.Online, sccore.Target} {
		vit, store, scope := trainer.Encoder(branch)
		w.frozen[branch] = try.E1(evaluation.NewFeatureExtractor(r.Backend(), vit, store, scope, evaluation.EncodeBatch))
	}
	return w, nil
}

// images are the training images of a row.
func images(d maintable.Data, row string) sccore.Data {
	data := d.Train
	switch row {
	case rowObjects:
		data.Scenes = nil
	case rowScenes:
		data.Objects = nil
	}
	return data
}

// baseline trains a baseline from scratch, and continues it.
type baseline struct {
	trainer *selfdistillation.Trainer
	frozen  map[sccore.Branch]*evaluation.FeatureExtractor
}

// Close frees the device's memory.
func (w baseline) Close() {
	for _, frozen := range w.frozen {
		frozen.Close()
	}
	w.trainer.Close()
}

// Run trains and measures a baseline, or continues it from the teacher of the start, from which the other arms start, too. The start itself is that teacher. A full
// checkpoint of the authors lets the baseline go on as they would: with both branches and the heads.
func (w baseline) Run(r *run) (err error) {
	defer try.Handle(&err)
	c, seed, t, start := r.Cell.Config, uint64(r.Cell.Seed), w.trainer, r.Cell.Row == rowStart
	t.Skipped = func(image datasets.Skipped) { r.Skip(image.File, image.Reason) }
	for _, frozen := range w.frozen {
		frozen.Skipped = t.Skipped
	}
	config, branch, how := c.Own, sccore.Online, "online branch"
	if start {
		branch, how = sccore.Target, "target branch"
	}
	from := cmp.Or(c.Weights, filepath.Join(filepath.Dir(r.Dir), rowStart, recipe.FinalFile))
	begin := func() error { return t.BeginFrom(from, seed) }
	if start && c.Weights == "" {
		config, begin = c.Start, func() error { return t.Begin(seed) }
	}
	try.E(t.Configure(images(r.Data, r.Cell.Row), config))
	if c.Weights != "" { // Also where the training resumes, so that records say how it began.
		try.E(begin())
		switch {
		case start:
		case t.Continued():
			how += ", heads and both branches of the file"
		default:
			how += ", " + newHeads
		}
	}
	frozen := w.frozen[branch]
	evaluators := recipe.Evaluators(frozen, r.Data.Data, c.Config.Config, r.Cell.Seed)
	if start && c.Weights != "" { // It is not trained here: its curve is one point, at step 0.
		point := selfdistillation.StepMetrics{Evaluated: map[string]float64{}}
		for _, evaluator := range evaluators {
			for name, value := range try.E1(evaluator.Evaluate(r.Context)) {
				point.Evaluated[evaluator.Name+"/"+name] = value
			}
		}
		try.E(study.WriteCurve(filepath.Join(r.Dir, recipe.CurveFile), []selfdistillation.StepMetrics{point}))
	} else {
		try.E(w.train(r, begin, evaluators))
	}
	try.E(t.SaveEncoder(filepath.Join(r.Dir, encoderFile), branch, map[string]string{"run": r.Cell.Name(), "config": string(study.EncodeConfig(c))}))
	if start && c.Second.Lambdas.ImageConcentration > 0 {
		r.Say("finding neighbours")
		neighbours := r.Data.Neighbours(filepath.Join(r.Dir, recipe.NeighboursFile), r.Cell.Seed, c.Config.Config)
		try.E1(neighbours.Find(r.Context, r.Backend(), frozen))
	}
	return record(r, frozen, how)
}

// anyPoint is what the curves of all arms have: those of baselines, and those of the method, whose points are sccore.StepMetrics.
type anyPoint struct {
	Step      int                `json:"step"`
	Total     float64            `json:"total"`
	Evaluated map[string]float64 `json:"evaluated"`
}

// train completes a training from its last checkpoint or from begin.
func (w baseline) train(r *run, begin func() error, evaluators []train.Evaluator) error {
	var curve []selfdistillation.StepMetrics
	loop := train.Loop[selfdistillation.StepMetrics]{
		Trainer: w.trainer, Dir: r.Dir, Final: recipe.FinalFile, Start: begin, Note: &curve, Evaluators: evaluators,
	}
	loop.After = func(m selfdistillation.StepMetrics, evaluated map[string]float64) error {
		r.Step("loss %.3f  entropy %.2f", m.Total, m.Entropy)
		if evaluated == nil && m.Step%r.Cell.Config.Second.MetricsEvery > 0 {
			return nil
		}
		m.Evaluated = evaluated
		curve = append(curve, m)
		if watch := r.Options().Watch; watch != nil {
			var shown []sccore.StepMetrics
			for _, p := range curve {
				spread := &metrics.Spread{Rank: p.Evaluated["spread/rank"]}
				shown = append(shown, sccore.StepMetrics{Step: p.Step, Total: p.Total, LearningRate: p.LearningRate, Evaluated: p.Evaluated, Patches: spread})
			}
			watch(r.Cell.Name(), recipe.Points(shown))
		}
		return study.WriteCurve(filepath.Join(r.Dir, recipe.CurveFile), curve)
	}
	if err := study.Train(r, &loop); err != nil {
		return err
	}
	return loop.Clean()
}

// newHeads is what records say of a baseline that begins with a file of an encoder.
const newHeads = "new heads"

// record measures an encoder and records its numbers. how says which one it is.
func record(r *run, frozen *evaluation.FeatureExtractor, how string) (err error) {
	defer try.Handle(&err)
	row, c := r.Cell.Row, r.Cell.Config
	if !r.Wants(row) {
		return nil
	}
	r.Say("measuring")
	points := try.E1(study.ReadCurve[anyPoint](filepath.Join(r.Dir, recipe.CurveFile)))
	last := points[len(points)-1]
	details := map[string]float64{"loss": last.Total, "steps": float64(last.Step), "images": float64(last.Step * c.Second.Batch)}
	curve, err := r.Path(recipe.CurveFile)
	if err == nil {
		err = recipe.AddGate(r.Dir, details)
	}
	try.E(err)
	numbers := try.E1(r.Data.Measure(r.Context, &evaluation.Encoder{FeatureExtractor: frozen, Seed: uint64(r.Cell.Seed)}, c.Config))
	for i := range numbers {
		n := &numbers[i]
		n.Row, n.Column, n.Details, n.Curve = row, columnOf(baselineOf(r.Cell), n.Column), details, curve
		n.Protocol += ", " + how
	}
	return r.Record(numbers...)
}
