package recipe

import (
	"github.com/semcon/semcon/sccore"
	"gonum.org/v1/gonum/stat"
)

// bestOver is the number of consecutive measurements whose mean rates an encoder; a single measurement is of one batch only.
const bestOver = 3

// improved reports whether the encoder at the end of a curve is the best so far: whether the between-class share of the variance of patch features,
// averaged over the last bestOver measurements, is higher than ever before.
//
// Without labels there is no best encoder, and the last one counts, as in the paper. The loss does not show which encoder is better: its target branch
// moves with the online branch, and it is lowest when both have collapsed.
//
// The result depends on the curve alone, so a resumed run writes the same encoders at the same steps as an uninterrupted one.
func improved(curve []sccore.StepMetrics) bool {
	if len(curve) == 0 || curve[len(curve)-1].Classes == nil {
		return false
	}
	var shares []float64
	for _, g := range curve {
		if g.Classes != nil {
			shares = append(shares, g.Classes.Share())
		}
	}
	best, last := 0.0, 0.0
	for i := bestOver; i <= len(shares); i++ {
		best, last = max(best, last), stat.Mean(shares[i-bestOver:i], nil)
	}
	return last > best
}
