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
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/settings"
)

// sinkhornReference is the textbook Sinkhorn–Knopp: scale columns, then rows, to their shares.
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
			if !(math.Abs(sum-1) <= 1e-9) {
				t.Errorf("row %d sums to %g", i, sum)
			}
		}
		for j, sum := range columns {
			if !(math.Abs(sum-3) <= 1e-6) {
				t.Errorf("column %d sums to %g, want 12/4", j, sum)
			}
		}
	})
}

// TestSinkhornBearsAnyScore has scores far beyond the range of a float32 exponential, and an entry that no row prefers.
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
	if err := settings.Check(DefaultSinkhorn()); err != nil {
		t.Error(err)
	}
	for want, s := range map[string]Sinkhorn{"iterations": {0, 0.05}, "epsilon 0": {3, 0}, "epsilon NaN": {3, math.NaN()}} {
		if err := settings.Check(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v gives the error %v, want one with %q", s, err, want)
		}
	}
}
