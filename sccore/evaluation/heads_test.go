package evaluation

import (
	"context"
	"encoding/json"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

// headGolden is what PyTorch makes of the heads; testdata/heads.py wrote it.
type headGolden struct {
	Features [][][][]float32 // [batch, rows, columns, dim]
	Labels   [][][]uint8     // [batch, 8·rows, 8·columns]
	Heads    map[string]struct {
		Weights map[string]struct {
			Shape  []int
			Values []float32
		}
		Logits []float32 // [batch, s·rows, s·columns, classes]
		Loss   float64
		Sizes  [][]int   // Of the images.
		Maps   [][]uint8 // Their classes at full size.
	}
}

func readHeadGolden(t *testing.T) (golden headGolden) {
	t.Helper()
	raw, err := os.ReadFile("testdata/heads.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Heads) != 2 {
		t.Fatalf("%d heads, want 2", len(golden.Heads))
	}
	return golden
}

func TestHeadsAgreeWithPyTorch(t *testing.T) {
	golden := readHeadGolden(t)
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for kind, want := range golden.Heads {
			store := model.NewStore()
			for name, weight := range want.Weights {
				if _, err := store.CreateVariable("/"+name, tensors.FromFlatDataAndDimensions(weight.Values, weight.Shape...)); err != nil {
					t.Fatal(err)
				}
			}
			head := SegmentationHead{Kind: kind, Classes: 3, Width: 4}
			exec := model.MustNewExec(b, store, func(scope *model.Scope, features, labels *Node) (logits, loss *Node) {
				logits = head.Logits(scope, features)
				return TransposeAllAxes(logits, 2, 0, 1, 3), head.Loss(logits, TransposeAllAxes(labels, 1, 2, 0))
			})
			out := exec.MustExec(golden.Features, golden.Labels)
			exec.Finalize()
			got := tensors.MustCopyFlatData[float32](out[0])
			for i, value := range got {
				if diff := math.Abs(float64(value - want.Logits[i])); !(diff < 1e-4) {
					t.Fatalf("%s: logit %d is %g, PyTorch's %g", kind, i, value, want.Logits[i])
				}
			}
			if loss := float64(out[1].Value().(float32)); !(math.Abs(loss-want.Loss) < 1e-5) {
				t.Errorf("%s: loss %g, PyTorch's %g", kind, loss, want.Loss)
			}
			rows, columns := out[0].Shape().Dim(1), out[0].Shape().Dim(2)
			for i, size := range want.Sizes {
				one := rows * columns * 3
				classes := fullSize(got[i*one:(i+1)*one], rows, columns, 3, size[0], size[1])
				differing := 0
				for p := range classes {
					if classes[p] != want.Maps[i][p] {
						differing++
					}
				}
				if len(classes) != len(want.Maps[i]) || differing > len(classes)/500 { // Ties but for rounding.
					t.Errorf("%s: %d of %d pixels of image %d have another class", kind, differing, len(want.Maps[i]), i)
				}
			}
		}
	})
}

// TestFullSizeIsExactWhereNothingIsResized also takes the first of equals.
func TestFullSizeIsExactWhereNothingIsResized(t *testing.T) {
	if got := fullSize([]float32{1, 2, 5, 3, 4, 4, 0, -1}, 2, 2, 2, 2, 2); !slices.Equal(got, []uint8{1, 0, 0, 0}) {
		t.Errorf("%v", got)
	}
	if got := fullSize([]float32{1, 0, 0, 1}, 1, 2, 2, 1, 4); !slices.Equal(got, []uint8{0, 0, 1, 1}) {
		t.Errorf("%v", got)
	}
}

func TestHeadGradients(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(dims ...int) *tensors.Tensor {
		values := make([]float64, shapes.Make(dtypes.Float64, dims...).Size())
		for i := range values {
			values[i] = rng.NormFloat64()
		}
		return tensors.FromFlatDataAndDimensions(values, dims...)
	}
	labels := make([]int32, 16*8)
	for i := range labels {
		labels[i] = []int32{0, 1, 2, Ignore}[rng.IntN(4)]
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		features, truth := draw(1, 2, 1, 2), tensors.FromFlatDataAndDimensions(labels, 16, 8, 1)
		for _, head := range []SegmentationHead{{LinearHead, 3, 0}, {FCNHead, 3, 2}} {
			store := model.NewStore()
			var variables []*model.Variable
			exec := model.MustNewExec(b, store, func(scope *model.Scope, x, labels *Node) []*Node {
				variables = nil
				loss := head.Loss(head.Logits(scope, x), labels)
				var values []*Node
				for variable := range store.IterVariables() {
					if variable.Trainable {
						variables, values = append(variables, variable), append(values, variable.NodeValue(x))
					}
				}
				return append([]*Node{loss}, Gradient(loss, values...)...)
			})
			exec.MustExec(features, truth) // Makes the variables.
			for _, variable := range variables {
				variable.MustSetValue(draw(variable.Shape().Dimensions...))
			}
			gradients := exec.MustExec(features, truth)[1:]
			largest, count := 0.0, 0
			for i, variable := range variables {
				values := tensors.MustCopyFlatData[float64](variable.MustValue())
				for at, analytic := range tensors.MustCopyFlatData[float64](gradients[i]) {
					loss := func(move float64) float64 {
						moved := slices.Clone(values)
						moved[at] += move
						variable.MustSetValue(tensors.FromFlatDataAndDimensions(moved, variable.Shape().Dimensions...))
						return exec.MustExec(features, truth)[0].Value().(float64)
					}
					const step = 1e-6
					numeric := (loss(step) - loss(-step)) / (2 * step)
					if !(math.Abs(numeric-analytic) < 1e-6*max(1, math.Abs(numeric))) {
						t.Errorf("%s: gradient of %s, entry %d is %g, finite differences %g", head.Kind, variable.Path(), at, analytic, numeric)
					}
					largest, count = max(largest, math.Abs(numeric)), count+1
				}
				variable.MustSetValue(tensors.FromFlatDataAndDimensions(values, variable.Shape().Dimensions...))
			}
			if count < 9 || largest < 0.01 {
				t.Errorf("%s: %d gradients, the largest %g: nothing was learnt from", head.Kind, count, largest)
			}
		}
	})
}

// TestHeadsLearn has features in which classes are directions with noise; labels are of the patches.
func TestHeadsLearn(t *testing.T) {
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
		return Patches{x, y}, truth
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for kind, rate := range map[string]float64{LinearHead: 0.03, FCNHead: 0.01} {
			trainer, err := NewSegmentationTrainer(b, SegmentationTraining{
				Head: SegmentationHead{kind, classes, 12}, Dim: dim, Grid: grid, Batch: batch, Steps: steps, Rates: []float64{1e-6, rate}, FinalRate: 1e-3,
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
			if last[1] > 0.8 || last[0] < 0.9 { // Chance is ln 3 = 1.1; the first rate is next to none.
				t.Errorf("%s: losses %v at the end, %v at first", kind, last, first)
			}

			// Resumed, a run goes on as it would have.
			path := filepath.Join(t.TempDir(), "run.safetensors")
			run(1, 5)
			if err := trainer.Save(path, "note"); err != nil {
				t.Fatal(err)
			}
			drawn, truth := draw(rand.New(rand.NewPCG(6, 7)))
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

			// The head that has learnt tells the classes of new features.
			run(1, steps)
			logits, err := trainer.Logits(tensors.FromFlatDataAndDimensions(drawn.Features, batch, grid, grid, dim))
			if err != nil || len(logits) != 2 {
				t.Fatal(len(logits), err)
			}
			side := logits[1].Shape().Dim(1)
			flat := tensors.MustCopyFlatData[float32](logits[1])
			right := 0
			for i, class := range truth {
				image, row, column := i/(grid*grid), i/grid%grid, i%grid
				at := fullSize(flat[image*side*side*classes:][:side*side*classes], side, side, classes, grid, grid)
				if at[row*grid+column] == class {
					right++
				}
			}
			if right < 22 { // Of 36; chance is 12 ± 2.8.
				t.Errorf("%s: %d of %d patches are right", kind, right, len(truth))
			}
		}
	})
}

func TestSegmentationTrainingChecks(t *testing.T) {
	good := SegmentationTraining{SegmentationHead{FCNHead, 3, 8}, 4, 2, 1, 5, []float64{1e-3}, 1e-4}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*SegmentationTraining){
		`"mlp" is neither`:    func(c *SegmentationTraining) { c.Head.Kind = "mlp" },
		"1 classes":           func(c *SegmentationTraining) { c.Head.Classes = 1 },
		"width 0":             func(c *SegmentationTraining) { c.Head.Width = 0 },
		"dim 0":               func(c *SegmentationTraining) { c.Dim = 0 },
		"grid 0":              func(c *SegmentationTraining) { c.Grid = 0 },
		"batch -1":            func(c *SegmentationTraining) { c.Batch = -1 },
		"steps 0":             func(c *SegmentationTraining) { c.Steps = 0 },
		"number of rates 0":   func(c *SegmentationTraining) { c.Rates = nil },
		"learning rate 0":     func(c *SegmentationTraining) { c.Rates = []float64{0} },
		"learning rate NaN":   func(c *SegmentationTraining) { c.FinalRate = math.NaN() },
		"learning rate +Inf ": func(c *SegmentationTraining) { c.FinalRate = math.Inf(1) },
	} {
		c := good
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
