package sccore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// TestBeginDoesNotDependOnWhatWasBuiltOnTheEncoder begins again after someone else's graph has used the target branch.
func TestBeginDoesNotDependOnWhatWasBuiltOnTheEncoder(t *testing.T) {
	b := onGo(t)
	trainer := newTrainer(t, b, tinyData(), tiny())
	trained(t, trainer, 3, 0)
	want := state(t, trainer)
	for _, branch := range []sccore.Branch{sccore.Target, sccore.Online} {
		vit, store, scope := trainer.Encoder(branch)
		features := model.MustNewExec(b, store, func(root *model.Scope, images *graph.Node) *graph.Node {
			return vit.Tokens(root.Store().Scope(scope), images).Class
		})
		features.MustCall(tensors.FromShape(shapes.Make(dtypes.Float32, 1, 24, 24, 3)))
		features.Finalize()
		trained(t, trainer, 3, 0)
		if state(t, trainer) != want {
			t.Errorf("the %s branch's features change the initial weights", branch)
		}
	}
}

// TestMemoryIsEstimatedBeforeTheFirstStep: what cannot fit is refused before it is made, unless the configuration allows it.
func TestMemoryIsEstimatedBeforeTheFirstStep(t *testing.T) {
	config := tiny()
	config.MemoryGB = 1e-6
	trainer := newTrainer(t, onGo(t), tinyData(), config)
	if err := trainer.Begin(0); err == nil || !strings.Contains(err.Error(), "memory: weights, gradients and the optimizer's state take ") {
		t.Fatal(err)
	}
	// Each weight that learns has a copy in the target branch, a gradient and two moments.
	learnt := int64(0)
	for v := range trainer.Store().IterVariables() {
		if v.Trainable {
			learnt += int64(v.Shape().ByteSize())
		}
	}
	if state := trainer.StateBytes(); state < 9*learnt/2 || state > 6*learnt {
		t.Errorf("%d bytes of state for %d bytes of weights that learn", state, learnt)
	}
	config.MemoryGB = 1
	if err := errors.Join(trainer.Configure(config), trainer.Begin(0)); err != nil {
		t.Error(err)
	}
}

func TestStepMetricsShowEveryLoss(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		config := tiny()
		trainer := tinyTrainer(t, b)
		g := trained(t, trainer, 1, 2)[1]
		sum := g.PatchAlignment + g.ImageAlignment + g.PatchConcentration + g.ImageConcentration + g.Prototypes
		if !(math.Abs(sum-g.Total) <= 1e-4) {
			t.Errorf("losses %+v add up to %g", g, sum)
		}
		for name, x := range map[string]float64{"patch alignment": g.PatchAlignment, "image alignment": g.ImageAlignment, "patch concentration": g.PatchConcentration,
			"image concentration": g.ImageConcentration, "prototypes": g.Prototypes, "image entropy": g.ImageEntropy, "patch entropy": g.PatchEntropy,
			"gradient": g.GradientNorm} {
			if !(x > 0) {
				t.Errorf("%s is %g", name, x)
			}
		}
		if most := math.Log(8); g.ImageEntropy > most || g.PatchEntropy > most {
			t.Errorf("entropies %g and %g above ln 8", g.ImageEntropy, g.PatchEntropy)
		}
		for _, spread := range []*metrics.Spread{g.Class, g.Patches} {
			if spread == nil || !(spread.Std > 0 && spread.Std < 1.5 && spread.Rank >= 1 && spread.Rank <= 64) {
				t.Errorf("spread %+v", spread)
			}
		}
		if c := g.Classes; c == nil || !(c.Within > 0 && c.Between > 0 && c.Within+c.Between <= 1) {
			t.Errorf("spread of classes %+v", c)
		}

		// Nonzero weights are inputs of the step; a weight of 0 needs another step.
		config.Lambdas = losses.Lambdas{PatchAlignment: 1, ImageAlignment: 2, PatchConcentration: 3, ImageConcentration: 4, Prototypes: 5}
		if err := trainer.Configure(config); err != nil {
			t.Fatal(err)
		}
		g = trained(t, trainer, 1, 1)[0]
		sum = g.PatchAlignment + 2*g.ImageAlignment + 3*g.PatchConcentration + 4*g.ImageConcentration + 5*g.Prototypes
		if !(math.Abs(sum-g.Total) <= 1e-3) {
			t.Errorf("weighted losses %+v add up to %g", g, sum)
		}
		config.Lambdas.Prototypes = 0
		if err := trainer.Configure(config); err == nil {
			t.Error("a compiled step serves another set of losses")
		}
		if err := trainer.Configure(tiny()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAblations trains a step of each line and checks which losses it reports.
func TestAblations(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := onGo(t)
	for _, line := range slices.Concat(sccore.Ablations, sccore.FilterAblations) {
		trainer := newTrainer(t, b, tinyData(), line.Config(tiny()))
		g := trained(t, trainer, 1, 1)[0]
		for name, on := range map[string][2]bool{
			"image alignment":     {line.On.ImageAlignment > 0, g.ImageAlignment > 0},
			"patch alignment":     {line.On.PatchAlignment > 0, g.PatchAlignment > 0},
			"image concentration": {line.On.ImageConcentration > 0, g.ImageConcentration > 0},
			"patch concentration": {line.On.PatchConcentration > 0, g.PatchConcentration > 0},
			"prototypes":          {line.On.Prototypes > 0, g.Prototypes > 0},
		} {
			if on[0] != on[1] {
				t.Errorf("line %d: %s is %v, want %v", line.Line, name, on[1], on[0])
			}
		}
		if !(g.GradientNorm > 0) {
			t.Errorf("line %d has no gradient", line.Line)
		}
		vit, store, scope := trainer.Encoder(sccore.Online)
		if vit.BlocksAfterFilter != line.BlocksAfterFilter || (vit.Prototypes > 0) != line.Filter {
			t.Errorf("line %d has %d prototypes before %d blocks", line.Line, vit.Prototypes, vit.BlocksAfterFilter)
		}
		if prototypes := store.GetVariable(fmt.Sprintf("%s/blocks/%d/filter/prototypes", scope, vit.Depth-1)); line.FilterAs == encoder.ResidualBlock || !line.Filter || line.BlocksAfterFilter > 0 {
			if prototypes != nil {
				t.Errorf("line %d has prototypes in the last block", line.Line)
			}
		} else {
			before := tensors.MustCopyFlatData[float32](prototypes.MustValue())
			trained(t, trainer, 1, 2)
			after := tensors.MustCopyFlatData[float32](prototypes.MustValue())
			if moved := !slices.Equal(before, after); moved != (line.FilterAs == encoder.ObjectAware) {
				t.Errorf("line %d: a step moves the prototypes: %t", line.Line, moved)
			}
			target := tensors.MustCopyFlatData[float32](store.GetVariable(strings.Replace(prototypes.Path(), "/online/", "/target/", 1)).MustValue())
			if line.FilterAs == encoder.FrozenPrototypes && !slices.Equal(target, before) {
				t.Errorf("line %d: the branches have other prototypes", line.Line)
			}
		}
	}
	if len(sccore.Ablations) != 7 {
		t.Errorf("%d lines, the paper has 7", len(sccore.Ablations))
	}
}

// TestMasterWeightsStayFloat32 trains a step in bfloat16 at a learning rate so low that rounding to eight bits would lose most of the step.
func TestMasterWeightsStayFloat32(t *testing.T) {
	config := tiny()
	config.BF16, config.LearningRate, config.FinalLearningRate, config.WeightDecay, config.FinalWeightDecay = true, 1e-6, 1e-6, 0, 0
	trainer := newTrainer(t, onGo(t), tinyData(), config)
	weights := func() map[string][]float32 {
		_, store, _ := trainer.Encoder(sccore.Online)
		weights := map[string][]float32{}
		for variable := range store.IterVariables() {
			if variable.DType().IsFloat() && variable.DType() != dtypes.Float32 {
				t.Errorf("%s is kept in %s", variable.Path(), variable.DType())
			}
			if strings.HasPrefix(variable.Path(), "/online/") {
				weights[variable.Path()] = tensors.MustCopyFlatData[float32](variable.MustValue())
			}
		}
		return weights
	}
	trained(t, trainer, 1, 0)
	before := weights()
	more(t, trainer, 1)
	moved, all := 0, 0
	for path, after := range weights() {
		for i, x := range after {
			step := math.Abs(float64(x - before[path][i]))
			if step > 3e-6 {
				t.Fatalf("%s moved by %g at a rate of 1e-6", path, step)
			}
			if all++; step > 0 {
				moved++
			}
		}
	}
	if float64(moved) < 0.9*float64(all) {
		t.Errorf("%d of %d weights moved", moved, all)
	}
}

// TestAccumulatedStep: while weights stand still, what a batch of two parts reports is the mean of what two batches of half the size report, whose images, views,
// partners and positives its parts have.
func TestAccumulatedStep(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := onGo(t)
	config := tiny()
	config.LearningRate, config.FinalLearningRate, config.WeightDecay, config.FinalWeightDecay = 1e-12, 1e-12, 0, 0
	halves := trained(t, newTrainer(t, b, tinyData(), config), 3, 4)
	config.AccumulationSteps, config.Batch = 2, 8
	for step, whole := range trained(t, newTrainer(t, b, tinyData(), config), 3, 2) {
		one, other := halves[2*step], halves[2*step+1]
		for name, of := range map[string]func(m sccore.StepMetrics) float64{
			"total":             func(m sccore.StepMetrics) float64 { return m.Total },
			"patch alignment":   func(m sccore.StepMetrics) float64 { return m.PatchAlignment },
			"image alignment":   func(m sccore.StepMetrics) float64 { return m.ImageAlignment },
			"CoTAP":             func(m sccore.StepMetrics) float64 { return m.PatchConcentration },
			"positives":         func(m sccore.StepMetrics) float64 { return m.ImageConcentration },
			"prototypes":        func(m sccore.StepMetrics) float64 { return m.Prototypes },
			"entropy of images": func(m sccore.StepMetrics) float64 { return m.ImageEntropy },
		} {
			if want := (of(one) + of(other)) / 2; !(math.Abs(of(whole)-want) <= 1e-5) || of(one) == of(other) {
				t.Errorf("step %d, %s: %g in two parts, which alone have %g and %g", step, name, of(whole), of(one), of(other))
			}
		}
		if !(whole.GradientNorm > 0 && whole.GradientNorm <= (one.GradientNorm+other.GradientNorm)/2) {
			t.Errorf("step %d: the gradient is %g long, those of the parts %g and %g", step, whole.GradientNorm, one.GradientNorm, other.GradientNorm)
		}
	}
}

// TestTrainingLearns aligns patches for some steps. Chance is a uniform prediction, whose cross-entropy is ln K.
func TestTrainingLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	config := sccore.Ablations[1].Config(tiny())
	config.Steps, config.LearningRate, config.Views.Locals = 100, 5e-3, 0
	config.Views.Global.Jitter, config.Views.Global.Grayscale = false, false
	metrics := trained(t, newTrainer(t, onGo(t), tinyData(), config), 1, config.Steps)
	mean := func(metrics []sccore.StepMetrics) (sum float64) {
		for _, g := range metrics {
			sum += g.PatchAlignment / float64(len(metrics))
		}
		return sum
	}
	chance, before, after := math.Log(8), mean(metrics[:5]), mean(metrics[90:])
	t.Logf("patch alignment %.2f at first, %.2f at last, %.2f by chance", before, after, chance)
	if before < chance || after > 0.95*chance {
		t.Errorf("patch alignment %.2f at first, %.2f at last, %.2f by chance", before, after, chance)
	}
}

func TestConfigCheckNamesTheField(t *testing.T) {
	if err := settings.Check(sccore.Default()); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(c *sccore.Config){
		"vit-huge":                func(c *sccore.Config) { c.Encoder = "vit-huge" },
		"positions":               func(c *sccore.Config) { c.Positions = "linear" },
		"prototypes -1":           func(c *sccore.Config) { c.Prototypes = -1 },
		"patch_head.out 1":        func(c *sccore.Config) { c.PatchHead.OutDim = 1 },
		"views.globals 1":         func(c *sccore.Config) { c.Views.Globals = 1 },
		"views.global_size 30":    func(c *sccore.Config) { c.Views.GlobalCropSize = 30 },
		"views.local_size 20":     func(c *sccore.Config) { c.Views.LocalCropSize = 20 },
		"accumulate 3":            func(c *sccore.Config) { c.AccumulationSteps = 3 },
		"warmup 6":                func(c *sccore.Config) { c.WarmupSteps = 6 },
		"rate NaN":                func(c *sccore.Config) { c.LearningRate = math.NaN() },
		"momentum 1.5":            func(c *sccore.Config) { c.TargetMomentum = 1.5 },
		"patch_concentration \"x": func(c *sccore.Config) { c.PatchConcentration = "x" },
		"correspondences.from \"": func(c *sccore.Config) { c.Correspondences.From = "x" },
		"correspondences.noise 2": func(c *sccore.Config) { c.Correspondences.Noise = 2 },
		"without prototypes":      func(c *sccore.Config) { c.Prototypes = 0 },
		"blocks_after_filter 3: vit-tiny has 3 blocks, want 0 to 2": func(c *sccore.Config) { c.BlocksAfterFilter = 3 },
		"blocks_after_filter -1":                                    func(c *sccore.Config) { c.BlocksAfterFilter = -1 },
		"blocks_after_filter 1 without prototypes": func(c *sccore.Config) {
			c.Prototypes, c.BlocksAfterFilter, c.Lambdas.Prototypes = 0, 1, 0
		},
		"views.global_size 30 is not a multiple of vit-tiny's patch size 8, want 32; views.local_size 20 is not a": func(c *sccore.Config) {
			c.Views.GlobalCropSize, c.Views.LocalCropSize = 30, 20
		},
		"every loss":  func(c *sccore.Config) { c.Lambdas = losses.Lambdas{Prototypes: 1} },
		"tau2":        func(c *sccore.Config) { c.CoTAP.Margin = 0 },
		"epsilon":     func(c *sccore.Config) { c.Sinkhorn.Epsilon = 0 },
		"min_overlap": func(c *sccore.Config) { c.Views.MinOverlap = 2 },
	} {
		c := tiny()
		change(&c)
		if err := settings.Check(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	b := onGo(t)
	noObjects, noNeighbours, noLabels := tinyData(), tinyData(), tinyData()
	for want, neighbours := range map[string]*knn.Neighbours{"needs neighbours": nil, "neighbours of 2 images": {K: 1, Indices: []int32{1, 0}}} {
		noNeighbours.Neighbours = neighbours
		if err := newTrainer(t, b, noNeighbours, tiny()).Begin(1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	noObjects.Objects, noObjects.Neighbours = nil, nil
	noLabels.Labels = nil
	fromLabels := tiny()
	fromLabels.Correspondences.From = sccore.FromLabels
	for want, c := range map[string]struct {
		data   sccore.Data
		config sccore.Config
	}{
		"object-centric":      {noObjects, tiny()},
		"labels":              {noLabels, fromLabels},
		"no source of images": {sccore.Data{}, tiny()},
	} {
		if _, err := sccore.NewTrainer(b, c.data, c.config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestEvaluatorsDoNotDisturbTraining trains with and without an evaluator that runs the online encoder every other step.
func TestEvaluatorsDoNotDisturbTraining(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := onGo(t)
	trainer := newTrainer(t, b, tinyData(), tiny())
	vit, store, scope := trainer.Encoder(sccore.Online)
	features := model.MustNewExec(b, store, func(root *model.Scope, images *graph.Node) *graph.Node {
		return graph.ReduceAllMean(graph.Square(vit.Tokens(root.Store().Scope(scope), images).Class))
	})
	defer features.Finalize()
	images := tensors.FromFlatDataAndDimensions(slices.Repeat([]float32{0.5}, 24*24*3), 1, 24, 24, 3)
	var ends [2]string
	var curve []float64
	for i, every := range []int{0, 2} {
		err := (&train.Loop[sccore.StepMetrics]{
			Trainer: trainer, Dir: t.TempDir(), Every: time.Hour, Start: func() error { return trainer.Begin(3) },
			Evaluators: []train.Evaluator{{Name: "features", Every: every, Evaluate: func(context.Context) (values map[string]float64, err error) {
				err = train.Execute(features, []any{images}, func(outputs []*tensors.Tensor) {
					values = map[string]float64{"square": float64(tensors.ToScalar[float32](outputs[0]))}
				})
				return values, err
			}}},
			After: func(_ sccore.StepMetrics, evaluated map[string]float64) error {
				if evaluated != nil {
					curve = append(curve, evaluated["features/square"])
				}
				return nil
			},
		}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = state(t, trainer)
	}
	if ends[0] != ends[1] {
		t.Error("an evaluator changes the run")
	}
	if len(curve) != 3 || curve[0] == curve[2] {
		t.Errorf("evaluated %v, want three values", curve)
	}
}

// TestSetData trains on other images with the same compiled step, which must be as if it had been compiled for them.
func TestSetData(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := onGo(t)
	other := tinyData()
	other.Objects, other.Scenes = synthetic.Objects(6, 32, 3), synthetic.Scenes(6, 32, 4)
	config := tiny()
	fresh := newTrainer(t, b, other, config)
	trained(t, fresh, 3, 2)
	reused := newTrainer(t, b, tinyData(), config)
	trained(t, reused, 3, 2)
	if state(t, reused) == state(t, fresh) {
		t.Fatal("other images train alike")
	}
	if err := reused.SetData(other); err != nil {
		t.Fatal(err)
	}
	trained(t, reused, 3, 2)
	if state(t, reused) != state(t, fresh) {
		t.Error("a step that is used again ends elsewhere")
	}
	other.Scenes = nil
	if err := reused.SetData(other); err == nil {
		t.Error("the step took images that it is not compiled for")
	}
}
