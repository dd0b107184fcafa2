package evaluation

import (
	"context"
	"encoding/json"
	"iter"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/settings"
)

// TestHeadsLearn has features in which each class is a direction with noise; all pixels of a patch share its label.
func TestHeadsLearn(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	const batch, grid, dim, classes, steps = 4, 3, 6, 3, 60
	draw := func(rng *rand.Rand) (batchOf Patches, truth []uint8) {
		x, y := make([]float32, 0, batch*grid*grid*dim), make([]uint8, batch*64*grid*grid)
		for i := range batch * grid * grid {
			class := uint8(rng.IntN(classes))
			for d := range dim {
				value := float32(0.2 * rng.NormFloat64())
				if d == int(class) {
					value++
				}
				x = append(x, value)
			}
			truth = append(truth, class)
			image, row, column := i/(grid*grid), i/grid%grid, i%grid
			for p := range 64 {
				y[(image*8*grid+8*row+p/8)*8*grid+8*column+p%8] = class
			}
		}
		return Patches{Features: x, Labels: y}, truth
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for kind, rate := range map[string]float64{heads.Linear: 0.03, heads.FCN: 0.01} {
			trainer, err := NewSegmentationTrainer(b, SegmentationConfig{
				Head: heads.Segmentation{Kind: kind, Classes: classes, Width: 12}, Dim: dim, Grid: grid, Batch: batch, Steps: steps, LearningRates: []float64{1e-6, rate}, FinalLearningRate: 1e-3,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer trainer.Close()
			run := func(seed uint64, steps int) (first, last []float32) {
				if err := trainer.Begin(seed); err != nil {
					t.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(4, 5))
				trainer.Crops = func(context.Context, int) iter.Seq2[Patches, error] {
					drawn, _ := draw(rng)
					return crops(drawn)
				}
				for trainer.Done() < steps {
					losses, err := trainer.Step(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if last = losses; first == nil {
						first = losses
					}
				}
				return first, last
			}
			first, last := run(1, steps)
			if again, _ := run(1, 1); !slices.Equal(first, again) {
				t.Errorf("%s: a seed begins with %v and %v", kind, first, again)
			}
			if other, _ := run(2, 1); slices.Equal(first, other) {
				t.Errorf("%s: two seeds begin with %v", kind, first)
			}
			if last[1] > 0.8 || last[0] < 0.9 { // Chance is ln 3 = 1.1; the first learning rate is almost 0.
				t.Errorf("%s: losses %v at the end, %v at first", kind, last, first)
			}

			// A resumed run continues as if it had not stopped.
			path := filepath.Join(t.TempDir(), "run.safetensors")
			run(1, 5)
			if err := trainer.Save(path, "note"); err != nil {
				t.Fatal(err)
			}
			drawn, _ := draw(rand.New(rand.NewPCG(6, 7)))
			same := func(context.Context, int) iter.Seq2[Patches, error] { return crops(drawn) }
			trainer.Crops = same
			want, err := trainer.Step(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			run(9, 2)
			if note, err := trainer.Resume(path); err != nil || note != "note" || trainer.Done() != 5 {
				t.Fatalf("%s: resumed at %d with %q, %v", kind, trainer.Done(), note, err)
			}
			trainer.Crops = same
			if got, err := trainer.Step(t.Context()); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: after resuming the losses are %v, %v, want %v", kind, got, err, want)
			}

			// The trained head classifies new features.
			run(1, steps)
			right, all, rng := 0, 0, rand.New(rand.NewPCG(8, 9))
			for range 4 {
				drawn, truth := draw(rng)
				logits, err := trainer.Logits(tensors.FromFlatDataAndDimensions(drawn.Features, batch, grid, grid, dim))
				if err != nil || len(logits) != 2 {
					t.Fatal(len(logits), err)
				}
				side := logits[1].Shape().Dim(1)
				flat := tensors.MustCopyFlatData[float32](logits[1])
				for i, class := range truth {
					image, row, column := i/(grid*grid), i/grid%grid, i%grid
					at := heads.PredictPixels(flat[image*side*side*classes:][:side*side*classes], side, side, classes, grid, grid)
					if all++; at[row*grid+column] == class {
						right++
					}
				}
			}
			if right < 72 { // Chance is 48 ± 5.7.
				t.Errorf("%s: %d of %d patches are right", kind, right, all)
			}
		}
	})
}

// TestOneHeadMayDiverge: its learning rate is too high, and the run goes on with the others. Its loss has a place in JSON, which checkpoints hold.
func TestOneHeadMayDiverge(t *testing.T) {
	trainer, err := NewSegmentationTrainer(testbackend.Go(t), SegmentationConfig{
		Head: heads.Segmentation{Kind: heads.Linear, Classes: 3}, Dim: 4, Grid: 1, Batch: 1, Steps: 3, LearningRates: []float64{1e-3, 1e-3}, FinalLearningRate: 1e-3,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	trainer.Crops = func(context.Context, int) iter.Seq2[Patches, error] {
		return func(yield func(Patches, error) bool) {
			yield(Patches{Features: []float32{1, 0, 0, 1}, Labels: make([]uint8, 64)}, nil)
		}
	}
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	for diverged := range 2 {
		for variable := range trainer.Store().IterVariables() {
			if strings.HasPrefix(variable.Path(), headScope(trainer.Store().RootScope(), 1-diverged).Scope()) {
				value := variable.MustValue().Shape()
				if err := variable.SetValue(tensors.FromFlatDataAndDimensions(slices.Repeat([]float32{float32(math.NaN())}, value.Size()), value.Dimensions...)); err != nil {
					t.Fatal(err)
				}
			}
		}
		losses, err := trainer.Step(t.Context())
		if diverged == 1 {
			if err == nil || !strings.Contains(err.Error(), "the losses of the heads are [NaN NaN]") {
				t.Errorf("both heads diverged: %v, %v", losses, err)
			}
			break
		}
		if err != nil || len(losses) != 2 || losses[1] != math.MaxFloat32 || !(losses[0] < 10) {
			t.Fatalf("the second head diverged: %v, %v", losses, err)
		}
		if text, err := json.Marshal(losses); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSegmentationTrainingChecks(t *testing.T) {
	good := SegmentationConfig{heads.Segmentation{Kind: heads.FCN, Classes: 3, Width: 8}, 4, 2, 1, 5, []float64{1e-3}, 1e-4}
	if err := settings.Check(good); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*SegmentationConfig){
		`"mlp": want linear or fcn`: func(c *SegmentationConfig) { c.Head.Kind = "mlp" },
		"classes 1":                 func(c *SegmentationConfig) { c.Head.Classes = 1 },
		"width 0":                   func(c *SegmentationConfig) { c.Head.Width = 0 },
		"dim 0":                     func(c *SegmentationConfig) { c.Dim = 0 },
		"grid 0":                    func(c *SegmentationConfig) { c.Grid = 0 },
		"batch -1":                  func(c *SegmentationConfig) { c.Batch = -1 },
		"steps 0":                   func(c *SegmentationConfig) { c.Steps = 0 },
		"number of rates 0":         func(c *SegmentationConfig) { c.LearningRates = nil },
		"learning_rates 0":          func(c *SegmentationConfig) { c.LearningRates = []float64{0} },
		"learning_rate NaN":         func(c *SegmentationConfig) { c.FinalLearningRate = math.NaN() },
		"learning_rate +Inf ":       func(c *SegmentationConfig) { c.FinalLearningRate = math.Inf(1) },
	} {
		c := good
		change(&c)
		if err := settings.Check(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
