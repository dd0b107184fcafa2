package layers

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

// onMaps applies a function of [N, rows, columns, D] to x, [rows, columns, batch, channels].
func onMaps(x *Node, f func(maps *Node) *Node) *Node {
	height, width, batch, channels := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2), x.Shape().Dim(3)
	y := f(Reshape(x, 1, height, width, batch*channels))
	return Reshape(y, y.Shape().Dim(1), y.Shape().Dim(2), batch, channels)
}

// testdata/pyramid.py writes the file.
func TestLayersOfPyramidsAgreeWithPyTorch(t *testing.T) {
	type values struct {
		Shape  []int
		Values []float64
	}
	var golden struct {
		Maps, Weight, Transposed, Maximum values
		Gradient                          values `json:"maximum_gradient"`
		Bias                              []float64
		Average, Nearest                  map[string]values
	}
	raw, err := os.ReadFile("testdata/pyramid.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Average) != 4 || len(golden.Nearest) != 3 {
		t.Fatalf("%d sizes of averages, %d of nearest neighbours", len(golden.Average), len(golden.Nearest))
	}
	type output struct {
		name string
		want values
		of   func(x *Node) *Node
	}
	outputs := []output{{"maximum", golden.Maximum, MaxPool2}, {"gradient of the maximum", golden.Gradient, func(x *Node) *Node {
		return Gradient(ReduceAllSum(MaxPool2(x)), x)[0]
	}}}
	for size, want := range golden.Average {
		outputs = append(outputs, output{"average of " + size, want, func(x *Node) *Node {
			return onMaps(x, func(maps *Node) *Node { return AveragePool(maps, want.Shape[0]) })
		}})
	}
	for size, want := range golden.Nearest {
		outputs = append(outputs, output{"nearest to " + size, want, func(x *Node) *Node {
			return onMaps(x, func(maps *Node) *Node { return ResizeNearest(maps, want.Shape[0], want.Shape[1]) })
		}})
	}
	tensor := func(v values) *tensors.Tensor { return tensors.FromFlatDataAndDimensions(v.Values, v.Shape...) }
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		all, err := CallOnceN(b, func(in []*Node) []*Node {
			nodes := []*Node{TransposedConvolutionWith(in[0], in[1], in[2])}
			for _, output := range outputs {
				nodes = append(nodes, output.of(in[0]))
			}
			return nodes
		}, tensor(golden.Maps), tensor(golden.Weight), golden.Bias)
		if err != nil {
			t.Fatal(err)
		}
		for i, output := range append([]output{{"transposed convolution", golden.Transposed, nil}}, outputs...) {
			if !slices.Equal(all[i].Shape().Dimensions, output.want.Shape) {
				t.Errorf("%s: shape %s, PyTorch's %v", output.name, all[i].Shape(), output.want.Shape)
				continue
			}
			for at, value := range tensors.MustCopyFlatData[float64](all[i]) {
				if !(math.Abs(value-output.want.Values[at]) < 1e-5) {
					t.Errorf("%s: value %d is %g, PyTorch's %g", output.name, at, value, output.want.Values[at])
				}
			}
		}
	})
}

func TestGradientsOfLayersOfPyramids(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		testbackend.CheckGradient(t, b, func(in []*Node) *Node {
			sum := ReduceAllSum(Square(TransposedConvolutionWith(in[0], in[1], in[2])))
			for _, y := range []*Node{MaxPool2(in[0]), AveragePool(in[0], 3), ResizeNearest(in[0], 5, 4)} {
				sum = Add(sum, ReduceAllSum(Square(y)))
			}
			return sum
		}, 1e-6, sines[float64](1, 3, 5, 1, 2), sines[float64](2, 2, 2, 3, 2), sines[float64](3, 3))
	})
}

// The weight of a transposed convolution converts to PyTorch's layout by the rule of all convolutions, and has PyTorch's initial range.
func TestTransposedConvolutionVariables(t *testing.T) {
	store := model.NewStore()
	exec := model.MustNewExec(testbackend.Go(t), store, func(scope *model.Scope, x *Node) *Node { return TransposedConvolution(scope, x, 25) })
	defer exec.Finalize()
	exec.MustCall(sines[float32](1, 1, 1, 1, 3))
	for name, shape := range map[string][]int{"/weight": {2, 2, 25, 3}, "/bias": {25}} {
		variable := store.GetVariable(name)
		if variable == nil || !slices.Equal(variable.Shape().Dimensions, shape) {
			t.Fatalf("%s: %v", name, variable)
		}
		values := tensors.MustCopyFlatData[float32](variable.MustValue())
		if low, high := slices.Min(values), slices.Max(values); low < -0.1 || high > 0.1 || high-low < 0.12 {
			t.Errorf("%s is initialised within %g and %g, want ±0.1", name, low, high)
		}
	}
}

func TestDropChannels(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		const batch, channels, rate = 50, 40, 0.25
		run := func() []float32 {
			store := model.NewStore()
			if err := store.SetRNGStateFromSeed(3); err != nil {
				t.Fatal(err)
			}
			exec := model.MustNewExec(b, store, func(scope *model.Scope, x *Node) *Node { return DropChannels(scope, x, rate) })
			defer exec.Finalize()
			ones := make([]float32, 2*batch*channels)
			for i := range ones {
				ones[i] = 3
			}
			return tensors.MustCopyFlatData[float32](exec.MustCall(tensors.FromFlatDataAndDimensions(ones, 2, 1, batch, channels))[0])
		}
		first := run()
		if !slices.Equal(first, run()) {
			t.Error("the same seed gives other values")
		}
		if !slices.Equal(first[:batch*channels], first[batch*channels:]) {
			t.Error("pixels of one channel differ")
		}
		dropped := 0
		for _, value := range first[:batch*channels] {
			if value == 0 {
				dropped++
			} else if value != 4 {
				t.Fatalf("value %g, want 0 or 3/0.75", value)
			}
		}
		if share := float64(dropped) / (batch * channels); !(math.Abs(share-rate) <= 0.04) {
			t.Errorf("a share of %g is dropped, want %g", share, rate)
		}
	})
}
