package pretrain

import (
	"github.com/semcon/semcon/sccore"
	"gonum.org/v1/gonum/stat"
)

// bestOver is the number of measurements in a row whose mean says how good an encoder is: each is of one batch.
const bestOver = 3

// improved tells whether the encoder at the end of a course is its best so far: whether the share of the variance of patch features that is
// between classes, in the mean of the last bestOver measurements, was never as high.
//
// Courses without labels have no best, and the last encoder counts, as in the paper: the loss is taken against a target branch that moves with
// the online one and is least where both have collapsed, so it does not tell which encoder is better.
//
// It looks at the course alone, so a run that resumes writes the same encoders at the same steps as one that never stopped.
func improved(course []sccore.StepMetrics) bool {
	if len(course) == 0 || course[len(course)-1].Classes == nil {
		return false
	}
	var shares []float64
	for _, g := range course {
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
