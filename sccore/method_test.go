package sccore

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/gradcheck"
	"github.com/semcon/semcon/internal/testbackend"
)

// sinkhornReference is Sinkhorn–Knopp as the books have it: columns, then rows, scaled to their shares.
func sinkhornReference(s Sinkhorn, scores [][]float64) [][]float64 {
	n, d := len(scores), len(scores[0])
	q := make([][]float64, n)
	for i := range q {
		for _, v := range scores[i] {
			q[i] = append(q[i], math.Exp(v/s.Epsilon))
		}
	}
	for range s.Iterations {
		for j := range d {
			sum := 0.0
			for i := range n {
				sum += q[i][j]
			}
			for i := range n {
				q[i][j] *= float64(n) / float64(d) / sum
			}
		}
		for i := range n {
			sum := 0.0
			for _, v := range q[i] {
				sum += v
			}
			for j := range d {
				q[i][j] /= sum
			}
		}
	}
	return q
}

func normal(rng *rand.Rand, dims ...int) *tensors.Tensor {
	values := make([]float64, shapes.Make(dtypes.Float64, dims...).Size())
	for i := range values {
		values[i] = rng.NormFloat64()
	}
	return tensors.FromFlatDataAndDimensions(values, dims...)
}

func TestSinkhornTargetsAreDistributionsThatShareTheEntries(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	scores := normal(rng, 12, 4).Value().([][]float64)
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		q := MustExecOnce(b, Sinkhorn{Iterations: 40, Epsilon: 0.5}.Targets, scores).Value().([][]float64)
		columns := make([]float64, 4)
		for i, row := range q {
			sum := 0.0
			for j, v := range row {
				sum += v
				columns[j] += v
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("row %d sums to %g", i, sum)
			}
		}
		for j, sum := range columns {
			if math.Abs(sum-3) > 1e-6 {
				t.Errorf("column %d sums to %g, want 12/4", j, sum)
			}
		}
	})
}

// TestSinkhornBearsAnyScore has scores far beyond what float32's exponential holds, and an entry that nothing chooses.
func TestSinkhornBearsAnyScore(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		scores := [][]float32{{1e4, -1e4, -3e4}, {-1e4, 1e4, -3e4}, {-2e4, -2e4, -5e4}}
		q := MustExecOnce(b, DefaultSinkhorn().Targets, scores).Value().([][]float32)
		for i, row := range q {
			sum := float32(0)
			for _, v := range row {
				sum += v
			}
			if !(math.Abs(float64(sum-1)) < 2e-2) { // Float32 holds logarithms of 1e6 to about 0.06.
				t.Errorf("row %d of targets, %v, sums to %g", i, row, sum)
			}
		}
	})
}

func TestSinkhornPassesNoGradient(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		gradient := MustExecOnce(b, func(x *Node) *Node { return Gradient(ReduceAllSum(Square(DefaultSinkhorn().Targets(x))), x)[0] },
			[][]float64{{1, 2}, {3, 5}})
		for _, v := range tensors.MustCopyFlatData[float64](gradient) {
			if v != 0 {
				t.Errorf("gradient %g", v)
			}
		}
	})
}

func TestSinkhornCheckNamesTheSetting(t *testing.T) {
	if err := DefaultSinkhorn().Check(); err != nil {
		t.Error(err)
	}
	for want, s := range map[string]Sinkhorn{"iterations": {0, 0.05}, "epsilon 0": {3, 0}, "epsilon NaN": {3, math.NaN()}} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v gives the error %v, want one on %q", s, err, want)
		}
	}
}

func TestRoIAlignGradient(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		rng := rand.New(rand.NewPCG(3, 4))
		for _, samples := range []int{0, 2} {
			gradcheck.Scalar(t, b, func(in []*Node) *Node {
				g := in[0].Graph()
				boxes := Const(g, [][]float64{{0.1, 0.25, 0.7, 0.6}, {0, 0.3, 1, 0.55}})
				y := RoIAlign{Size: 2, Samples: samples}.Pool(in[0], boxes, Const(g, []float64{0, 1}))
				return ReduceAllSum(Mul(Square(y), Sin(IotaFull(g, y.Shape()))))
			}, 1e-6, normal(rng, 2, 4, 5, 2))
		}
	})
}

// TestRoIAlignOfTheWholeMapIsTheMap pools to the map's own size, where each bin has one sample, on its feature.
func TestRoIAlignOfTheWholeMapIsTheMap(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		x := normal(rand.New(rand.NewPCG(5, 6)), 1, 4, 4, 3)
		got := MustExecOnce(b, RoIAlign{Size: 4}.Pool, x, [][]float64{{0, 0, 1, 1}}, []float64{0})
		agrees(t, "map", 0, tensors.MustCopyFlatData[float64](got), tensors.MustCopyFlatData[float64](x), 1e-12)
	})
}

func TestProjectorHasThreeLayersAndUnitOutputs(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		rng := rand.New(rand.NewPCG(7, 8))
		store := model.NewStore()
		p := Projector{Hidden: 6, Out: 4}
		project := model.MustNewExec(b, store, func(scope *model.Scope, x *Node) *Node { return p.Project(scope.In("projector"), x) })
		x := normal(rng, 2, 3, 5)
		got := tensors.MustCopyFlatData[float64](project.MustExec(x)[0])
		parameters := 0
		for v := range store.IterVariables() {
			if strings.HasPrefix(v.Path(), "/projector/") {
				parameters += v.Shape().Size()
			}
		}
		if want := (5+1)*6 + (6+1)*6 + (6+1)*4; parameters != want {
			t.Errorf("%d parameters, want %d", parameters, want)
		}
		values := func(path string) []float64 {
			return tensors.MustCopyFlatData[float64](store.GetVariable("/projector/" + path).MustValue())
		}
		dense := func(layer string, in []float64) []float64 {
			weight, out := values(layer+"/weight"), append([]float64(nil), values(layer+"/bias")...)
			for i, v := range in {
				for j := range out {
					out[j] += v * weight[i*len(out)+j]
				}
			}
			return out
		}
		gelu := func(x []float64) []float64 {
			for i, v := range x {
				x[i] = v / 2 * (1 + math.Erf(v/math.Sqrt2))
			}
			return x
		}
		tokens := tensors.MustCopyFlatData[float64](x)
		for token := range 6 {
			want := dense("layer3", gelu(dense("layer2", gelu(dense("layer1", tokens[5*token:][:5])))))
			length := 0.0
			for _, v := range want {
				length += v * v
			}
			for j := range want {
				want[j] /= math.Sqrt(length)
			}
			agrees(t, "token", token, got[4*token:][:4], want, 1e-9)
		}
	})
}
