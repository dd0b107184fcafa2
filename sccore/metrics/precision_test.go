package metrics_test

import (
	"math"
	"testing"

	"github.com/semcon/semcon/sccore/metrics"
)

func TestPrecisionAtTop(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		scores   []float64
		positive []bool
		share    float64
		want     float64
	}{
		"the best one":      {[]float64{0.1, 0.9, 0.5, 0.3}, []bool{no, yes, no, yes}, 0.25, 100},
		"at least one":      {[]float64{0.1, 0.9, 0.5, 0.3}, []bool{yes, no, yes, yes}, 0.01, 0},
		"half":              {[]float64{0.1, 0.9, 0.5, 0.3}, []bool{no, yes, no, yes}, 0.5, 50},
		"all":               {[]float64{0.1, 0.9, 0.5, 0.3}, []bool{no, yes, no, yes}, 1, 50},
		"ties count evenly": {[]float64{0.9, 0.5, 0.5, 0.5}, []bool{no, yes, no, no}, 0.5, 100.0 / 6}, // One and a third of a tie of three.
		"all equal":         {[]float64{1, 1, 1, 1}, []bool{no, yes, no, no}, 0.25, 25},
		"NaN comes last":    {[]float64{math.NaN(), 0.5}, []bool{yes, no}, 0.5, 0},
	} {
		if got := metrics.PrecisionAtTop(c.scores, c.positive, c.share)[0]; !(math.Abs(got-c.want) <= 1e-9) {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
	if got := metrics.PrecisionAtTop(nil, nil, 0.1)[0]; !math.IsNaN(got) {
		t.Errorf("%g without scores", got)
	}
}
