package stats

import (
	"fmt"
	"math"
	"slices"
)

// AUC is the area under the ROC curve of scores, in [0, 1]: the probability that a random positive scores above a random negative, where a tie counts
// half. It says how well correspondences separate patches of one class from others: 1/2 is chance. It is an error if lengths differ, if a score is
// NaN, or if there are no positives or no negatives.
func AUC(scores []float64, positive []bool) (float64, error) {
	if len(scores) != len(positive) {
		return 0, fmt.Errorf("AUC: %d scores for %d labels", len(scores), len(positive))
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
		return 0, fmt.Errorf("AUC: %d scores, %.0f of them positive: want positives and negatives", len(scores), positives)
	}
	return (sum - positives*(positives+1)/2) / (positives * negatives), nil
}
