package metrics

import (
	"fmt"
	"math"

	"github.com/gomlx/gomlx/core/tensors"
	"gonum.org/v1/gonum/mat"
)

// Collapse holds two gauges of how much of the feature space an encoder uses.
type Collapse struct {
	// FeatureStd is √D times the mean over the D dimensions of the standard deviation of unit-length features: 1 when they are spread
	// evenly over the sphere, 0 when they have collapsed to a point (Chen & He 2021, fig. 2, times √D).
	FeatureStd float64 `json:"feature_std"`
	// EffectiveRank is that of the features' covariance, in [1, D] or 0; see [metrics.EffectiveRank].
	EffectiveRank float64 `json:"effective_rank"`
}

// MeasureCollapse measures features, [N, D] with N ≥ 2, in float64 on the host.
func MeasureCollapse(features *tensors.Tensor) (Collapse, error) {
	if features.Rank() != 2 || features.Shape().Dimensions[0] < 2 {
		return Collapse{}, fmt.Errorf("collapse gauges need at least two feature vectors, not %s", features.Shape())
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
			return Collapse{}, fmt.Errorf("collapse gauges: feature vector %d has NaN or Inf", i)
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
	return Collapse{FeatureStd: math.Sqrt(float64(dim)) * std, EffectiveRank: EffectiveRank(&covariance)}, nil
}
