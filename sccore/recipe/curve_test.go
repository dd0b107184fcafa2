package recipe

import (
	"testing"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/metrics"
)

// TestImprovedIsTheBestMeanOfThree walks along curves of shares; below 0 stands a step without measurement.
func TestImprovedIsTheBestMeanOfThree(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   []bool
	}{
		{[]float64{0.9, 0.9}, []bool{false, false}},
		{[]float64{0.1, 0.2, 0.3, 0.1, 0.3, 0.4}, []bool{false, false, true, false, true, true}},
		{[]float64{0.1, -1, 0.2, 0.3, -1, 0.4}, []bool{false, false, false, true, false, true}},
		{[]float64{0.5, 0.5, 0.5, 0.5}, []bool{false, false, true, false}}, // The first of equals.
		{[]float64{0, 0, 0, 0}, []bool{false, false, false, false}},
		{[]float64{-1, -1, -1, -1}, []bool{false, false, false, false}},
	} {
		var curve []sccore.StepMetrics
		for i, share := range c.shares {
			var g sccore.StepMetrics
			if share >= 0 {
				g.Classes = &metrics.ClassSpread{Within: 1 - share, Between: share}
			}
			if curve = append(curve, g); improved(curve) != c.want[i] {
				t.Errorf("%v: at %d it is %t, want %t", c.shares, i, !c.want[i], c.want[i])
			}
		}
	}
	if improved(nil) {
		t.Error("no curve has improved")
	}
}
