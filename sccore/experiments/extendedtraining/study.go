// Package extendedtraining is the experiment on the fairness of the paper's comparison ("Effects of Extended Training and Dataset"): DINO, iBOT and Mugs go on
// with their own losses, on objects, on scenes and on the mixture of both, beside the method and its alignment losses alone, all from the same encoder, for
// the same number of steps and images.
//
// A baseline is trained from scratch, or read from a file. Another continuation gets a case in newWorker and rows in the tables of its file.
package extendedtraining

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/selfdistillation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/weights"
)

// Name is the experiment's name.
const Name = "extended-training"

// baselineOf is a part of a cell's path: baseline/row, or images/baseline/row.
func baselineOf(c study.Cell[Config]) string { return c.Path[len(c.Path)-2] }

// cells lists the cells of a call: all rows of a baseline and a seed before the next baseline.
func cells(o study.Options, dataset string) (cells []study.Cell[Config], err error) {
	defer try.Handle(&err)
	read, configs := dataset == recipe.Images, map[string]Config{}
	for _, baseline := range selfdistillation.Names {
		o, c := o, ProfileConfig(o.Profile, read, baseline)
		o.Set = settings.For(o.Set, baseline, selfdistillation.Names) // "dino.own.rate=0.1" is for one baseline, "own.rate=0.1" for all.
		try.E(settings.Apply(&c, o.Set...))
		recipe.FollowSteps(&c.Second, o)
		for key, momentum := range map[string]*float64{"first": &c.First.TargetMomentum, "own": &c.Own.TargetMomentum} {
			*momentum = lo.Ternary(settings.Given(o.Set, key+".momentum"), *momentum, c.Second.TargetMomentum)
		}
		if c.Own.Method != baseline || c.Start.Method != baseline {
			return nil, fmt.Errorf("--set own.method=%s, start.method=%s: choose baselines with --only '%s'", c.Own.Method, c.Start.Method, c.Own.Method)
		}
		if fromFile(o.Profile) && c.Weights == "" {
			continue
		}
		try.E(cmp.Or(c.check(o.Profile, read), study.CheckSeeds(study.Seeds(Name, o), c.Shares)))
		if c.WeightsSHA256 = ""; c.Weights != "" {
			if c.WeightsSHA256, err = weights.Digest(c.Weights); err != nil {
				return nil, fmt.Errorf("--set %s.weights=%s: %w", baseline, c.Weights, err)
			}
		}
		configs[baseline] = c
	}
	if len(configs) == 0 {
		return nil, fmt.Errorf("the %s profile starts from files, such as official checkpoints: --set dino.weights=FILE, ibot.weights=FILE or mugs.weights=FILE", o.Profile)
	}
	rows := lo.Reject(study.TableOf(Name, "values").Rows, func(row study.Row, _ int) bool { return lacks(o.Profile, row.Key) })
	for seed := range study.Seeds(Name, o) {
		for _, baseline := range selfdistillation.Names {
			if config, ok := configs[baseline]; ok {
				cells = append(cells, lo.Map(rows, func(row study.Row, _ int) study.Cell[Config] {
					return maintable.NewCell(dataset, seed, config, baseline, row.Key)
				})...)
			}
		}
	}
	return cells, nil
}

// steps is the number of steps that a cell trains.
func steps(_ maintable.Data, c study.Cell[Config]) int {
	switch {
	case c.Row != rowStart:
		return c.Config.Own.Steps
	case c.Config.Weights != "":
		return 0
	}
	return c.Config.Start.Steps
}

// ofMethod reports whether a cell trains the method, or its alignment losses alone, from the encoder of a baseline.
func ofMethod(c study.Cell[Config]) bool { return c.Row == rowAlignment || c.Row == rowMethod }

// columnOf is the column of a baseline's numbers: "DINO/knn_Acc@1".
func columnOf(baseline, column string) string { return titles[baseline] + "/" + column }

// Study is the experiment.
var Study = maintable.Spec(study.Spec[Config, maintable.Data]{
	Name:  Name,
	Parts: []string{"dataset", "baseline", "row", "seed"},
	Cells: cells,
	Open: func(o study.Options, _ string, cells []study.Cell[Config]) (_ maintable.Data, err error) {
		defer try.Handle(&err)
		for _, c := range cells {
			if file := c.Config.Weights; file != "" { // Before anything is compiled or written.
				if err := sccore.CheckStart(file, c.Config.Second); err != nil {
					return maintable.Data{}, study.BadOption{Err: fmt.Errorf("--set %s.weights=%s: %w", baselineOf(c), file, err)}
				}
			}
		}
		keys := []string{"images", "shares", "size", "recall.classes", "evaluate", "dense"}
		if o.Data == "" || o.Profile == study.Real {
			keys = append(keys, "second.canvas")
		}
		try.E(study.CheckShared(cells, keys...))
		return maintable.Open(o, cells[0].Config.Config, cells[0].Seed)
	},
	Numbers: func(d maintable.Data, c study.Cell[Config]) []study.Number {
		numbers := recipe.NumbersOf(c.Row, d.Measures(c.Config.Config))
		for i := range numbers {
			numbers[i].Column = columnOf(baselineOf(c), numbers[i].Column)
		}
		return numbers
	},
	Steps: steps,
	FLOPs: func(c study.Cell[Config]) float64 { // The method's, or less.
		return float64(steps(maintable.Data{}, c)) * c.Config.Second.FLOPs()
	},
	NewWorker: newWorker,
	Shares: func(c study.Cell[Config]) string {
		if ofMethod(c) { // --set may change the method after one baseline alone.
			return c.Row + study.Hash(study.EncodeConfig(byMethod.Stage(c).Config))
		}
		return baselineOf(c)
	},
	Needs: func(c study.Cell[Config]) []study.Cell[Config] {
		if c.Row == rowStart {
			return nil
		}
		return []study.Cell[Config]{maintable.NewCell(c.Dataset, c.Seed, c.Config, baselineOf(c), rowStart)}
	},
	Folder: func(d maintable.Data, c study.Cell[Config]) string { // The cells of a baseline and a seed share one, whose name depends on the training but not on the evaluation.
		trained := Config{Start: c.Config.Start, Own: c.Config.Own, WeightsSHA256: c.Config.WeightsSHA256}
		trained.First, trained.Second, trained.Images = c.Config.First, c.Config.Second, c.Config.Images
		trained.Size = lo.Ternary(c.Dataset == recipe.Images, c.Config.Size, 0) // Neighbours are found at this size. Drawn images have the canvas's.
		name := fmt.Sprintf("seed%d-%s", c.Seed, study.Hash(study.EncodeConfig(trained), []byte(d.Identity())))
		return filepath.Join("cells", baselineOf(c), name, c.Row)
	},
	ProfileConfig: func(r study.Record, config Config) Config {
		c := ProfileConfig(r.Profile, r.Kind == figures.Real, config.Own.Method)
		if fromFile(r.Profile) {
			c.Weights, c.WeightsSHA256 = config.Weights, config.WeightsSHA256
		}
		return c
	},
	Common: func(config, _ Config) Config {
		config.Weights = ""
		return config
	},
	Tables:  study.ByKind(tables),
	Figures: drawn,
})

// encoderFile is in a cell's folder. Continuations start from the encoder of the start's teacher.
const encoderFile = "encoder.safetensors"

// run is a running cell.
type run = study.Run[Config, maintable.Data]

// byMethod continues a baseline with the method, or with its alignment losses alone.
var byMethod = recipe.Cells[Config, maintable.Data]{
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
	if ofMethod(r.Cell) {
		return byMethod.NewWorker(r)
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

// Run trains and measures a baseline, or continues it from the teacher of the start, from which the other continuations start, too. The row start has that teacher itself. A full
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
			branch, how = sccore.Target, "target branch, which the authors measure, heads and both branches of the file"
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

// train completes a training from its last checkpoint or from begin.
func (w baseline) train(r *run, begin func() error, evaluators []train.Evaluator) (err error) {
	defer try.Handle(&err)
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
			watch(r.Cell.Name(), recipe.Points(lo.Map(curve, func(p selfdistillation.StepMetrics, _ int) sccore.StepMetrics {
				spread := &metrics.Spread{Rank: p.Evaluated["spread/rank"]}
				return sccore.StepMetrics{Step: p.Step, Total: p.Total, LearningRate: p.LearningRate, Evaluated: p.Evaluated, Patches: spread}
			})))
		}
		return study.WriteCurve(filepath.Join(r.Dir, recipe.CurveFile), curve)
	}
	try.E(study.Train(r, &loop))
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
	curve := try.E1(r.Path(recipe.CurveFile))
	try.E(recipe.AddGate(r.Dir, details))
	numbers := try.E1(recipe.MeasureAll(r.Context, &evaluation.Encoder{FeatureExtractor: frozen, Seed: uint64(r.Cell.Seed)}, r.Data.Measures(c.Config)))
	for i := range numbers {
		n := &numbers[i]
		n.Row, n.Column, n.Details, n.Curve = row, columnOf(baselineOf(r.Cell), n.Column), details, curve
		n.Protocol += ", " + how
	}
	return r.Record(numbers...)
}
