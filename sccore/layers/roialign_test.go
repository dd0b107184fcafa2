package layers

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
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
)

// roiAlignCase is a result of torchvision's RoI-Align, written by testdata/roialign.py.
type roiAlignCase struct {
	Size, Samples    int
	Dims             []int
	Features, Pooled []float64
	Boxes            [][]float64
}

func readRoIAlignCases(t *testing.T) (cases []roiAlignCase) {
	t.Helper()
	raw, err := os.ReadFile("testdata/roialign.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 7 {
		t.Fatalf("%d cases of RoI-Align, want 7", len(cases))
	}
	return slices.DeleteFunc(cases, func(c roiAlignCase) bool { return c.Samples > 0 }) // Of a fixed number of samples.
}

func TestRoIAlignAgreesWithTorchvision(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for i, c := range readRoIAlignCases(t) {
			n, width, dim := c.Dims[0], c.Dims[2], c.Dims[3]
			features := tensors.FromFlatDataAndDimensions(c.Features, c.Dims...)
			pool := MustNewExec(b, func(features, boxes, flips *Node) *Node {
				return RoIAlign{OutputSize: c.Size}.Pool(features, boxes, flips)
			})
			got := tensors.MustCopyFlatData[float64](pool.MustCall(features, c.Boxes, make([]float64, n))[0])
			agreesWithin(t, "case", i, got, c.Pooled, 1e-9)

			// The mirrored maps and boxes of a flipped view pool to the same features.
			mirrored := make([]float64, len(c.Features))
			for at := range c.Features {
				x := at / dim % width
				mirrored[at+(width-1-2*x)*dim] = c.Features[at]
			}
			boxes := make([][]float64, n)
			flips := make([]float64, n)
			for j, box := range c.Boxes {
				boxes[j] = []float64{box[0], 1 - box[1] - box[3], box[2], box[3]}
				flips[j] = 1
			}
			got = tensors.MustCopyFlatData[float64](pool.MustCall(tensors.FromFlatDataAndDimensions(mirrored, c.Dims...), boxes, flips)[0])
			agreesWithin(t, "mirrored case", i, got, c.Pooled, 1e-9)

			// The same in the precision of training.
			narrow := make([]float32, len(c.Features))
			for at, v := range c.Features {
				narrow[at] = float32(v)
			}
			short := MustExecOnce(b, func(features, boxes, flips *Node) *Node {
				return RoIAlign{OutputSize: c.Size}.Pool(features, boxes, flips)
			}, tensors.FromFlatDataAndDimensions(narrow, c.Dims...), c.Boxes, make([]float64, n))
			var wide []float64
			for _, v := range tensors.MustCopyFlatData[float32](short) {
				wide = append(wide, float64(v))
			}
			agreesWithin(t, "float32 case", i, wide, c.Pooled, 1e-5)
		}
	})
}

func TestRoIAlignGradient(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		rng := rand.New(rand.NewPCG(3, 4))
		testbackend.CheckGradient(t, b, func(in []*Node) *Node {
			g := in[0].Graph()
			boxes := Const(g, [][]float64{{0.1, 0.25, 0.7, 0.6}, {0, 0.3, 1, 0.55}})
			y := RoIAlign{OutputSize: 2}.Pool(in[0], boxes, Const(g, []float64{0, 1}))
			return ReduceAllSum(Mul(Square(y), Sin(IotaFull(g, y.Shape()))))
		}, 1e-6, normals(rng, 2, 4, 5, 2))
	})
}

// TestRoIAlignOfTheWholeMapIsTheMap pools to the map's own size: each bin has one sample, at its feature.
func TestRoIAlignOfTheWholeMapIsTheMap(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		x := normals(rand.New(rand.NewPCG(5, 6)), 1, 4, 4, 3)
		got := MustExecOnce(b, RoIAlign{OutputSize: 4}.Pool, x, [][]float64{{0, 0, 1, 1}}, []float64{0})
		agreesWithin(t, "map", 0, tensors.MustCopyFlatData[float64](got), tensors.MustCopyFlatData[float64](x), 1e-12)
	})
}

func normals(rng *rand.Rand, dims ...int) *tensors.Tensor {
	values := make([]float64, shapes.Make(dtypes.Float64, dims...).Size())
	for i := range values {
		values[i] = rng.NormFloat64()
	}
	return tensors.FromFlatDataAndDimensions(values, dims...)
}

func agreesWithin(t *testing.T, what string, number int, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s %d has %d values, want %d", what, number, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance) {
			t.Errorf("%s %d, value %d: %g, want %g", what, number, i, got[i], want[i])
			return
		}
	}
}
