// Package metrics measures features and predictions. Features, predictions and their ground truth go in, and numbers come out: mean IoU
// ([Confusion]), region and boundary measures of videos ([EvaluateJF]), AP and AR of detections ([EvaluateCOCO]), accuracy ([TopKAccuracy]), and how much of their space features
// use ([EffectiveRank], [Spread], [ClassSpread]). Nothing here trains or knows a protocol: that is package evaluation.
//
// The next metric gets a file here, named for it, and is compared in testdata with the code that the field uses.
package metrics

import (
	"cmp"
	"math"
	"slices"
)

// TopKAccuracy is the percentage of labels among the first k classes of their ranking; 0 if there are none.
func TopKAccuracy(ranked [][]int32, labels []int32, k int) float64 {
	if len(ranked) != len(labels) || len(labels) == 0 {
		return 0
	}
	right := 0
	for i, classes := range ranked {
		if slices.Contains(classes[:min(k, len(classes))], labels[i]) {
			right++
		}
	}
	return 100 * float64(right) / float64(len(labels))
}

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
