package overdispersion

import (
	"fmt"
	"path/filepath"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"gonum.org/v1/gonum/stat"
)

// run is a running cell.
type run = study.Run[recipe.Config, recipe.Data]

// worker trains the cells of one line with one compiled step.
type worker struct{ stage *recipe.Stage }

func newWorker(r *run) (study.Worker[recipe.Config, recipe.Data], error) {
	r.Say("compiling")
	stage, err := recipe.NewStage(r.Backend(), r.Cell.Path[0], r.Data.Train, stageConfig(r.Cell))
	return worker{stage}, err
}

// Close frees the device's memory.
func (w worker) Close() { w.stage.Close() }

// Run trains a line, evaluates it on the way and records what became of it; or it trains what the lines of a seed begin from.
func (w worker) Run(r *run) error {
	c, seed, t := r.Cell.Config, uint64(r.Cell.Seed), w.stage.Trainer
	if err := w.stage.SetData(r.Data.Train); err != nil {
		return err
	}
	if rowOf(r.Cell) == start {
		return recipe.TrainStage(r, w.stage, r.Dir, func() error { return t.Begin(seed) }, nil)
	}
	evaluators := append(recipe.Evaluators(r.Backend(), w.stage.Frozen, r.Data, c, r.Cell.Seed), dispersionEvaluator(c.EvaluateEvery, w.stage.Frozen, r.Data.Scenes[1], c.Size))
	from := filepath.Join(filepath.Dir(r.Dir), start, recipe.FinalFile)
	if err := recipe.TrainStage(r, w.stage, r.Dir, func() error { return t.BeginFrom(from, seed) }, evaluators); err != nil {
		return err
	}
	curve, _, err := recipe.CurveOf(r, r.Dir)
	if err != nil {
		return err
	}
	points, err := study.ReadCurve[sccore.StepMetrics](filepath.Join(r.Dir, filepath.Base(curve)))
	if err != nil {
		return err
	}
	numbers, err := summary(points, float64(r.Data.Train.Scenes.Len())/float64(c.Second.Batch))
	if err != nil {
		return fmt.Errorf("%s: %w", r.Cell.Name(), err)
	}
	for i := range numbers {
		numbers[i].Row, numbers[i].Curve = rowOf(r.Cell), curve
		numbers[i].Protocol += fmt.Sprintf("; linear probe and k-NN of frozen features every %d steps, online branch", c.EvaluateEvery)
	}
	return r.Record(numbers...)
}

// summary makes the numbers of a training from its curve. epoch is the number of steps in which the scenes are seen once.
func summary(points []sccore.StepMetrics, epoch float64) ([]study.Number, error) {
	var steps []float64
	values := map[string][]float64{}
	for _, p := range points {
		if _, ok := p.Evaluated[evaluatedMIoU]; !ok {
			continue
		}
		steps = append(steps, float64(p.Step))
		for name, value := range p.Evaluated {
			values[name] = append(values[name], value)
		}
	}
	last := 0 // The first evaluation in the last third.
	for last < len(steps) && steps[last] < 2*steps[len(steps)-1]/3 {
		last++
	}
	if len(steps)-last < 2 {
		return nil, fmt.Errorf("%d evaluations in the last third of training, want at least 2", len(steps)-last)
	}
	slope := func(name string) float64 {
		_, perStep := stat.LinearRegression(steps[last:], values[name][last:], nil, false)
		return perStep * epoch
	}
	final := func(name string) float64 { return values[name][len(steps)-1] }
	const overLast = "slope of the straight line through the evaluations in the last third of training; an epoch is once through the scenes"
	return []study.Number{
		{Column: columnMIoUSlope, Metric: "slope of mIoU", Unit: "points per epoch", Value: slope(evaluatedMIoU), Protocol: overLast},
		{Column: columnKNNSlope, Metric: "slope of k-NN accuracy", Unit: "points per epoch", Value: slope(evaluatedKNN), Protocol: overLast},
		{Column: columnMIoU, Metric: "mIoU", Unit: "%", Value: final(evaluatedMIoU), Protocol: "at the end"},
		{Column: columnKNN, Metric: "k-NN accuracy", Unit: "%", Value: final(evaluatedKNN), Protocol: "at the end"},
		{
			Column: columnContrast, Metric: "similarity of patches of one class minus that of two", Value: final(evaluatedClass) - final(evaluatedOther),
			Details:  map[string]float64{"instance": final(evaluatedInstance), "class": final(evaluatedClass), "other": final(evaluatedOther)},
			Protocol: "mean cosine of patch features of test scenes at the end: of different objects of a class, minus of two classes",
		},
	}, nil
}
