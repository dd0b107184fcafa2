package stats

import (
	"math"
	"slices"
	"testing"
)

func TestMeanByBin(t *testing.T) {
	middles, means := MeanByBin([]float64{0, 0.1, 0.3, 1}, []float64{1, 3, 5, 7}, 4)
	if !slices.Equal(middles, []float64{0.125, 0.375, 0.625, 0.875}) || means[0] != 2 || means[1] != 5 || !math.IsNaN(means[2]) || means[3] != 7 {
		t.Errorf("%v, %v", middles, means)
	}
}
