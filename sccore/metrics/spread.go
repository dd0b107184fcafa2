package metrics

import (
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/losses"
	"gonum.org/v1/gonum/mat"
)

// Spread says how much of their space features use.
type Spread struct {
	// Std is √D times the mean over the D dimensions of the standard deviation of unit-length features: near 1 if they are spread evenly over the
	// sphere, 0 if they have collapsed to a point (Chen & He 2021, fig. 2, times √D).
	Std float64 `json:"std"`
	// Rank is the effective rank of their covariance, in [1, D], or 0 if they do not vary; see [EffectiveRank].
	Rank float64 `json:"rank"`
}

// MeasureSpread returns the spread of features, [N, D] with N ≥ 2, computed in float64 on the host.
func MeasureSpread(features *tensors.Tensor) (Spread, error) {
	if features.Rank() != 2 || features.Shape().Dimensions[0] < 2 {
		return Spread{}, fmt.Errorf("spread: features %s, want at least two vectors", features.Shape())
	}
	n, dim := features.Shape().Dimensions[0], features.Shape().Dimensions[1]
	flat := tensors.MustCopyFlatData[float32](features)
	unit := mat.NewDense(n, dim, nil)
	for i := range n {
		row := unit.RawRowView(i)
		norm := 0.0
		for j := range row {
			row[j] = float64(flat[i*dim+j])
			norm = math.Hypot(norm, row[j])
		}
		if math.IsNaN(norm) || math.IsInf(norm, 0) {
			return Spread{}, fmt.Errorf("spread: feature vector %d has NaN or Inf", i)
		}
		if norm > 0 {
			for j := range row {
				row[j] /= norm
			}
		}
	}
	std := 0.0
	for j := range dim {
		mean := 0.0
		for i := range n {
			mean += unit.At(i, j) / float64(n)
		}
		variance := 0.0
		for i := range n {
			centred := unit.At(i, j) - mean
			unit.Set(i, j, centred)
			variance += centred * centred / float64(n)
		}
		std += math.Sqrt(variance) / float64(dim)
	}
	var covariance mat.SymDense
	covariance.SymOuterK(1/float64(n), unit.T())
	return Spread{Std: math.Sqrt(float64(dim)) * std, Rank: EffectiveRank(&covariance)}, nil
}

// SpreadOf returns the spread of features with this covariance, [D, D] of float32.
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

// Covariance is the covariance, [D, D], of features, [..., D], scaled to length 1.
func Covariance(features *Node) *Node {
	dim := features.Shape().Dim(-1)
	unit := losses.Unit(Reshape(StopGradient(features), -1, dim))
	centred := Sub(unit, ReduceAndKeep(unit, ReduceMean, 0))
	return DivScalar(MatMul(Transpose(centred, 0, 1), centred), float64(unit.Shape().Dim(0)))
}
