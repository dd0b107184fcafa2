package encoder_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/layers"
)

// goldenCase is a backbone with known weights and images, and the results of PyTorch in float64, written by testdata/golden.py.
type goldenCase struct {
	Name          string
	Parameters    [][2]any // Path and shape, in PyTorch's order.
	Features      []float64
	Gradients     map[string][]float64 // The gradients of Σ features·wave(2000, …), the first 128 entries of each.
	ImageGradient []float64            `json:"image_gradient"` // The first image only.
	Running       map[string][]float64 // Statistics after the step.
	Inference     []float64            // Features then.
}

// wave is the i-th entry of the k-th tensor of testdata/golden.py.
func wave(k, i int) float64 { return math.Sin(12.9898*float64(i) + 78.233*float64(k)) }

// fromTorch maps each entry of a convolution's weight, [height, width, in, out], to its position in PyTorch's [out, in, height, width]. Other
// tensors have the same layout in both.
func fromTorch(dims []int) []int {
	size := shapes.Make(dtypes.Float64, dims...).Size()
	places := make([]int, size)
	for i := range places {
		places[i] = i
		if len(dims) == 4 {
			in, out := dims[2], dims[3]
			o, c, hw := i%out, i/out%in, i/out/in
			places[i] = (o*in+c)*dims[0]*dims[1] + hw
		}
	}
	return places
}

// far returns the largest difference, relative to the largest entry of want.
func far(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	largest, difference := 1e-30, 0.0
	for i := range want {
		largest = max(largest, math.Abs(want[i]))
		difference = max(difference, math.Abs(got[i]-want[i])) // NaN stays.
	}
	return difference / largest
}

// checkClose compares values with a tolerance of 1e-5 of the largest.
func checkClose(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if d := far(got, want); !(d <= 1e-5) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestBackbonesAgreeWithPyTorch(t *testing.T) {
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			testbackend.Each(t, func(t *testing.T, b compute.Backend) {
				checkGolden(t, b, c, dtypes.Float32, 1e-4)
				if b.Name() != "xla" { // Compiling for XLA once is enough.
					checkGolden(t, b, c, dtypes.Float64, 1e-8)
				}
			})
		})
	}
}

// waves is the k-th tensor of testdata/golden.py in our layout; images there are [batch, 3, height, width].
func waves(k int, dtype dtypes.DType, scale, offset float64, dims ...int) *tensors.Tensor {
	places := fromTorch(dims)
	if k == 1000 {
		for i := range places {
			channel, pixel, image := i%3, i/3%(dims[1]*dims[2]), i/3/(dims[1]*dims[2])
			places[i] = (image*3+channel)*dims[1]*dims[2] + pixel
		}
	}
	values := make([]float64, len(places))
	for i, place := range places {
		values[i] = offset + scale*wave(k, place)
	}
	if dtype == dtypes.Float64 {
		return tensors.FromFlatDataAndDimensions(values, dims...)
	}
	single := make([]float32, len(values))
	for i, v := range values {
		single[i] = float32(v)
	}
	return tensors.FromFlatDataAndDimensions(single, dims...)
}

func flat64(t *tensors.Tensor) []float64 {
	if t.DType() == dtypes.Float64 {
		return tensors.MustCopyFlatData[float64](t)
	}
	var values []float64
	for _, v := range tensors.MustCopyFlatData[float32](t) {
		values = append(values, float64(v))
	}
	return values
}

func checkGolden(t *testing.T, b compute.Backend, c goldenCase, dtype dtypes.DType, tolerance float64) {
	backbone := byName(t, c.Name)
	store := model.NewStore()
	path := func(name string) string { return "/" + strings.ReplaceAll(name, ".", "/") }
	shape := map[string][]int{}
	for k, p := range c.Parameters {
		name := p[0].(string)
		var dims []int
		for _, d := range p[1].([]any) {
			dims = append(dims, int(d.(float64)))
		}
		scale, offset := 0.2, 0.0
		if len(dims) == 4 {
			scale = math.Sqrt(4 / float64(dims[0]*dims[2]*dims[3]))
			dims = []int{dims[2], dims[3], dims[1], dims[0]}
		} else if strings.HasSuffix(name, "weight") {
			scale, offset = 0.3, 1
		}
		shape[name] = dims
		if _, err := store.CreateVariable(path(name), waves(k, dtype, scale, offset, dims...)); err != nil {
			t.Fatal(err)
		}
	}
	step := model.MustNewExec(b, store, func(scope *model.Scope, images, weights *Node) []*Node {
		y := backbone.Features(scope, images, layers.Norm{Train: true})
		wrt := []*Node{images}
		for _, p := range c.Parameters {
			wrt = append(wrt, store.GetVariable(path(p[0].(string))).NodeValue(images))
		}
		return append(Gradient(ReduceAllSum(Mul(y, weights)), wrt...), y)
	})
	defer step.Finalize()
	images := waves(1000, dtype, 1, 0, 6, 13, 13, 3)
	got := step.MustCall(images, waves(2000, dtype, 1, 0, 6, backbone.Dim))

	check := func(what string, got, want []float64) {
		t.Helper()
		if d := far(got, want); !(d <= tolerance) {
			t.Errorf("%s: off by %.2g of the largest entry", what, d)
		}
	}
	check("features", flat64(got[len(got)-1]), c.Features)
	ours := flat64(got[0])[:13*13*3]
	imageGradient := make([]float64, len(ours))
	for i := range imageGradient {
		imageGradient[i] = c.ImageGradient[i%3*13*13+i/3]
	}
	check("gradient of an image", ours, imageGradient)
	for k, p := range c.Parameters {
		name := p[0].(string)
		ours, want := flat64(got[k+1]), c.Gradients[name]
		gradient := make([]float64, len(want))
		for i, place := range fromTorch(shape[name]) {
			if place < len(gradient) {
				gradient[place] = ours[i]
			}
		}
		check("gradient of "+name, gradient, want)
	}
	trainable := 0
	for v := range store.IterVariables() {
		if v.Trainable {
			trainable++
		}
	}
	if trainable != len(c.Parameters) {
		t.Errorf("%d trainable variables, want %d", trainable, len(c.Parameters))
	}
	for name, want := range c.Running {
		v := store.GetVariable(path(name))
		if v == nil {
			t.Fatalf("no variable %s", name)
		}
		got := flat64(v.MustValue())
		if layer, ok := strings.CutSuffix(name, "mean"); ok {
			// Some means nearly cancel, so that their own size says nothing about rounding. What is summed up has the size of the batch's standard deviation or mean.
			variances := c.Running[layer+"var"]
			if len(got) != len(want) || len(got) != len(variances) {
				t.Fatalf("%s: %d values, want %d of %d channels", name, len(got), len(want), len(variances))
			}
			size := 0.0
			for i, variance := range variances { // After one step with momentum 0.1 from mean 0 and variance 1.
				size = max(size, math.Sqrt(max(0, (variance-0.9)/0.1)), math.Abs(want[i]/0.1))
			}
			for i := range want {
				if d := math.Abs(got[i]-want[i]) / (0.1 * size); !(d <= tolerance) {
					t.Errorf("%s: channel %d is off by %.2g of %.2g", name, i, d, size)
				}
			}
			continue
		}
		check(name, got, want)
	}
	inference := model.MustNewExec(b, store, func(scope *model.Scope, images *Node) *Node {
		return backbone.Features(scope, images, layers.Norm{})
	})
	defer inference.Finalize()
	check("features by running statistics", flat64(inference.MustCall(images)[0]), c.Inference)
}
