package metrics

import (
	"cmp"
	"math"
	"slices"
)

// PrecisionAtTop is the share of positives, in percent, among the given shares of highest scores: 0.01 takes the top percent, but at least one score.
// Equal scores at the border count by the share of positives among them, so that the order of the input means nothing. It is NaN without scores.
func PrecisionAtTop(scores []float64, positive []bool, shares ...float64) (precisions []float64) {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	for _, share := range shares {
		top := max(1, int(math.Round(share*float64(len(order)))))
		found := 0.0
		for begin := 0; begin < min(top, len(order)); {
			end, positives := begin, 0
			for ; end < len(order) && scores[order[end]] == scores[order[begin]]; end++ {
				if positive[order[end]] {
					positives++
				}
			}
			end = max(end, begin+1) // NaN equals nothing.
			found += float64(positives) * float64(min(end, top)-begin) / float64(end-begin)
			begin = end
		}
		if len(order) == 0 {
			found = math.NaN()
		}
		precisions = append(precisions, 100*found/float64(top))
	}
	return precisions
}
