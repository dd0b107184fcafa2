package overdispersion

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/semcon/semcon/analysis/dispersion"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// run is a running cell.
type run = study.Run[recipe.Config, recipe.Data]

// training is how cells train: the start without evaluations, and the lines from it.
var training = recipe.Cells[recipe.Config, recipe.Data]{
	Stage: func(c study.Cell[recipe.Config]) recipe.Stage {
		if row := rowOf(c); row != start {
			return c.Config.Stage(c.Path[0], lines[row].Config(c.Config.Second), filepath.Join(start, recipe.FinalFile))
		}
		return recipe.Stage{Name: start, Config: c.Config.First}
	},
	Base: func(r *run) (recipe.Data, recipe.Config) {
		c := r.Cell.Config
		if rowOf(r.Cell) == start {
			c.EvaluateEvery, c.GradientsEvery = 0, 0
		}
		return r.Data, c
	},
	Evaluators: func(r *run, t *recipe.Trainer) []train.Evaluator {
		if rowOf(r.Cell) == start {
			return nil
		}
		c, seed := r.Cell.Config, uint64(r.Cell.Seed)
		if r.Data.Annotated[0] == nil {
			return []train.Evaluator{dispersionEvaluator(c.EvaluateEvery, func(ctx context.Context) (dispersion.Patches, error) {
				encoded, err := evaluation.Encode(ctx, t.Frozen, r.Data.Scenes[1].Images, c.Size, dispersedScenes, true)
				return patchesOf(encoded, r.Data.Scenes[1]), err
			})}
		}
		drawn := func(size int, withoutBackground bool) func(context.Context) (dispersion.Patches, error) {
			return func(ctx context.Context) (dispersion.Patches, error) {
				sample := evaluation.PatchSample{Images: dispersedPhotographs, PerImage: 16, Size: size}
				drawn, err := sample.Draw(ctx, t.Frozen, r.Data.Annotated[1], seed)
				return drawn.Dispersion(withoutBackground), err
			}
		}
		encoder := &evaluation.Encoder{FeatureExtractor: t.Frozen, Seed: seed}
		if segments(c) {
			coco := evaluation.Data{Train: r.Data.Annotated[0], Test: r.Data.Annotated[1]}
			return []train.Evaluator{
				evaluation.During(c.EvaluateEvery, "segmentation", segmentation(c), encoder, coco), dispersionEvaluator(c.EvaluateEvery, drawn(c.Size, false)),
			}
		}
		recall := train.Evaluator{Name: "recall", Every: c.EvaluateEvery, Evaluate: func(ctx context.Context) (map[string]float64, error) {
			numbers, err := r.Data.MeasureRecall(ctx, encoder, c.Recall, c.Probe)
			values := map[string]float64{}
			for i, n := range numbers {
				values[[]string{"linear", "k-NN", "foreground"}[i]] = n.Value
			}
			return values, err
		}}
		return []train.Evaluator{recall, dispersionEvaluator(c.EvaluateEvery, drawn(c.Recall.Size, true))}
	},
	Record: record,
}

// segmentation is the linear segmentation of Tab. main, with no larger a batch than the training's.
func segmentation(c recipe.Config) evaluation.Evaluation {
	p := evaluation.DefaultSegmentationProbe()
	p.Batch = min(p.Batch, c.Second.Batch)
	return p
}

// record records what became of a line's encoder along its training.
func record(r *run, _ *recipe.Trainer) error {
	if rowOf(r.Cell) == start {
		return nil
	}
	c := r.Cell.Config
	points, err := study.ReadCurve[sccore.StepMetrics](filepath.Join(r.Dir, recipe.CurveFile))
	if err != nil {
		return err
	}
	images := cmp.Or(r.Data.Train.Scenes, r.Data.Train.Objects)
	numbers, err := summary(points, float64(images.Len())/float64(c.Second.Batch), qualities(c))
	if err != nil {
		return fmt.Errorf("%s: %w", r.Cell.Name(), err)
	}
	gate := map[string]float64{}
	if err := recipe.AddGate(r.Dir, gate); err != nil {
		return err
	}
	curve, err := r.Path(recipe.CurveFile)
	protocol := "linear probe and k-NN of frozen features"
	if segments(c) {
		protocol = segmentation(c).Protocol()
	}
	for i := range numbers {
		if numbers[i].Details == nil {
			numbers[i].Details = gate
		}
		numbers[i].Row, numbers[i].Curve = rowOf(r.Cell), curve
		numbers[i].Protocol += fmt.Sprintf("; %s every %d steps, online branch", protocol, c.EvaluateEvery)
		if c.Recall.Size > 0 {
			numbers[i].Data = r.Data.RecallNumbers("")[0].Data
		}
	}
	return cmp.Or(err, r.Record(numbers...))
}

// summary makes the numbers of a training from its curve. epoch is the number of steps in which the scenes are seen once.
func summary(points []sccore.StepMetrics, epoch float64, qualities [2]quality) (numbers []study.Number, err error) {
	var steps []float64
	values := map[string][]float64{}
	for _, p := range points {
		if _, ok := p.Evaluated[qualities[0].evaluated]; !ok {
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
	for _, q := range qualities {
		numbers = append(numbers, study.Number{Column: q.slope(), Metric: "slope of " + q.metric, Unit: "points per epoch", Value: slope(q.evaluated), Protocol: overLast})
	}
	for _, q := range qualities {
		numbers = append(numbers, study.Number{Column: q.column, Metric: q.metric, Unit: "%", Value: final(q.evaluated), Protocol: "at the end"})
	}
	return append(numbers, study.Number{
		Column: columnContrast, Metric: "similarity of patches of one class minus that of two", Value: final(evaluatedClass) - final(evaluatedOther),
		Details:  map[string]float64{"instance": final(evaluatedInstance), "class": final(evaluatedClass), "other": final(evaluatedOther)},
		Protocol: "mean cosine of patch features of test scenes at the end: of different objects of a class, minus of two classes",
	}), nil
}

// Names of evaluated values in curves.
const (
	evaluatedInstance = "dispersion/instance"
	evaluatedClass    = "dispersion/class"
	evaluatedOther    = "dispersion/other"
)

// dispersedScenes and dispersedPhotographs are the numbers of images whose patches are compared.
const (
	dispersedScenes      = 32
	dispersedPhotographs = 128
)

// dispersionEvaluator measures mean similarities of patches on objects: of one object, of two objects of a class, and of two classes. On photographs the image
// stands for the object.
func dispersionEvaluator(every int, patches func(context.Context) (dispersion.Patches, error)) train.Evaluator {
	return train.Evaluator{Name: "dispersion", Every: every, Evaluate: func(ctx context.Context) (map[string]float64, error) {
		compared, err := patches(ctx)
		if err != nil {
			return nil, err
		}
		similarity, _, err := compared.Measure(1)
		if err == nil && min(similarity.InstancePairs, similarity.ClassPairs, similarity.InterClassPairs) == 0 {
			err = fmt.Errorf("%d, %d and %d pairs of patches of one object, of one class and of two", similarity.InstancePairs, similarity.ClassPairs, similarity.InterClassPairs)
		}
		return map[string]float64{"instance": similarity.Instance, "class": similarity.Class, "other": similarity.InterClass}, err
	}}
}

// patchesOf labels patches by the pixel in their middle. Patches of no object are left out.
func patchesOf(encoded evaluation.Encoded, scenes *synthetic.Set) dispersion.Patches {
	count := len(encoded.Patches) / encoded.Dim
	values := make([]float64, len(encoded.Patches))
	for i, x := range encoded.Patches {
		values[i] = float64(x)
	}
	p := dispersion.Patches{Features: mat.NewDense(count, encoded.Dim, values)}
	places := encoded.Rows * encoded.Columns
	for i := range count {
		image, row, column := i/places, i%places/encoded.Columns, i%encoded.Columns
		y, x := (2*row+1)*scenes.Height/(2*encoded.Rows), (2*column+1)*scenes.Width/(2*encoded.Columns)
		at := (image*scenes.Height+y)*scenes.Width + x
		p.Class = append(p.Class, int(scenes.ClassMask[at])-1)
		p.Instance = append(p.Instance, 256*image+int(scenes.InstanceMask[at]))
	}
	return p
}
