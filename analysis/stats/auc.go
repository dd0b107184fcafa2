package stats

import (
	"fmt"
	"math"
	"slices"
)

// AUC is the area under the receiver operating characteristic of scores, in [0, 1]: the probability that a random positive scores above a
// random negative, a tie counting half. It is how well correspondences tell patches of one class from others: 1/2 is chance.
// Different numbers of scores and marks, a NaN score, or nothing on one of the two sides are errors.
func AUC(scores []float64, positive []bool) (float64, error) {
	if len(scores) != len(positive) {
		return 0, fmt.Errorf("AUC of %d scores with %d marks", len(scores), len(positive))
	}
	if i := slices.IndexFunc(scores, math.IsNaN); i >= 0 {
		return 0, fmt.Errorf("AUC: score %d is NaN", i)
	}
	sum, positives := 0.0, 0.0
	for i, rank := range ranks(scores) {
		if positive[i] {
			sum += rank
			positives++
		}
	}
	negatives := float64(len(scores)) - positives
	if positives == 0 || negatives == 0 {
		return 0, fmt.Errorf("AUC of %d scores, %.0f of them of positives: want some of both", len(scores), positives)
	}
	return (sum - positives*(positives+1)/2) / (positives * negatives), nil
}
