package heads

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
)

// headGolden holds the results of the heads in PyTorch, written by testdata/heads.py.
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
		Sizes  [][]int   // Height and width of each image.
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
			head := Segmentation{Kind: kind, Classes: 3, Width: 4}
			exec := model.MustNewExec(b, store, func(scope *model.Scope, features, labels *Node) (logits, loss *Node) {
				logits = head.Logits(scope, features)
				return TransposeAllAxes(logits, 2, 0, 1, 3), head.Loss(logits, TransposeAllAxes(labels, 1, 2, 0))
			})
			out := exec.MustCall(golden.Features, golden.Labels)
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
				classes := PredictPixels(got[i*one:(i+1)*one], rows, columns, 3, size[0], size[1])
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

// TestPredictPixelsWithoutResizing also checks that the first of equal classes wins.
func TestPredictPixelsWithoutResizing(t *testing.T) {
	if got := PredictPixels([]float32{1, 2, 5, 3, 4, 4, 0, -1}, 2, 2, 2, 2, 2); !slices.Equal(got, []uint8{1, 0, 0, 0}) {
		t.Errorf("%v", got)
	}
	if got := PredictPixels([]float32{1, 0, 0, 1}, 1, 2, 2, 1, 4); !slices.Equal(got, []uint8{0, 0, 1, 1}) {
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
		labels[i] = []int32{0, 1, 2, int32(datasets.Ignore)}[rng.IntN(4)]
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		features, truth := draw(1, 2, 1, 2), tensors.FromFlatDataAndDimensions(labels, 16, 8, 1)
		for _, head := range []Segmentation{{Linear, 3, 0}, {FCN, 3, 2}} {
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
			exec.MustCall(features, truth) // Makes the variables.
			for _, variable := range variables {
				if err := variable.SetValue(draw(variable.Shape().Dimensions...)); err != nil {
					t.Fatal(err)
				}
			}
			gradients := exec.MustCall(features, truth)[1:]
			largest, count := 0.0, 0
			for i, variable := range variables {
				values := tensors.MustCopyFlatData[float64](variable.MustValue())
				for at, analytic := range tensors.MustCopyFlatData[float64](gradients[i]) {
					loss := func(move float64) float64 {
						moved := slices.Clone(values)
						moved[at] += move
						if err := variable.SetValue(tensors.FromFlatDataAndDimensions(moved, variable.Shape().Dimensions...)); err != nil {
							t.Fatal(err)
						}
						return exec.MustCall(features, truth)[0].Value().(float64)
					}
					const step = 1e-6
					numeric := (loss(step) - loss(-step)) / (2 * step)
					if !(math.Abs(numeric-analytic) < 1e-6*max(1, math.Abs(numeric))) {
						t.Errorf("%s: gradient of %s, entry %d is %g, finite differences %g", head.Kind, variable.Path(), at, analytic, numeric)
					}
					largest, count = max(largest, math.Abs(numeric)), count+1
				}
				if err := variable.SetValue(tensors.FromFlatDataAndDimensions(values, variable.Shape().Dimensions...)); err != nil {
					t.Fatal(err)
				}
			}
			if count < 9 || largest < 0.01 {
				t.Errorf("%s: %d gradients, the largest %g: nothing was learnt from", head.Kind, count, largest)
			}
		}
	})
}
