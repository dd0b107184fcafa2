package metrics

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/losses"
	"gonum.org/v1/gonum/mat"
)

// Spread says how much of their space features use.
type Spread struct {
	// Std is √D times the mean over the D dimensions of the standard deviation of unit-length features: near 1 where they are spread evenly
	// over the sphere, 0 where they have collapsed to a point.
	Std float64 `json:"std"`
	// Rank is the effective rank of their covariance, in [1, D], or 0; see [EffectiveRank].
	Rank float64 `json:"rank"`
}

// SpreadOf measures a covariance, [D, D] of float32.
func SpreadOf(covariance *tensors.Tensor) *Spread {
	dim := covariance.Shape().Dim(0)
	symmetric := mat.NewSymDense(dim, nil)
	std := 0.0
	for i, x := range tensors.MustCopyFlatData[float32](covariance) {
		row, column := i/dim, i%dim
		if row <= column {
			symmetric.SetSym(row, column, float64(x))
		}
		if row == column {
			std += math.Sqrt(max(float64(x), 0)) / float64(dim)
		}
	}
	return &Spread{Std: math.Sqrt(float64(dim)) * std, Rank: EffectiveRank(symmetric)}
}

// Covariance is that of features, [..., D], scaled to length 1: [D, D].
func Covariance(features *Node) *Node {
	dim := features.Shape().Dim(-1)
	unit := losses.Unit(Reshape(StopGradient(features), -1, dim))
	centred := Sub(unit, ReduceAndKeep(unit, ReduceMean, 0))
	return DivScalar(MatMul(Transpose(centred, 0, 1), centred), float64(unit.Shape().Dim(0)))
}
