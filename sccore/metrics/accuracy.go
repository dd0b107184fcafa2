package metrics

import "slices"

// Accuracy is the share of predictions equal to labels, in percent; 0 of none.
func Accuracy(predictions, labels []int32) float64 {
	if len(predictions) != len(labels) || len(labels) == 0 {
		return 0
	}
	right := 0
	for i := range labels {
		if predictions[i] == labels[i] {
			right++
		}
	}
	return 100 * float64(right) / float64(len(labels))
}

// AccuracyWithin is the share of labels that are among the first k classes of their ranking, in percent: the top-k accuracy. It is 0 of none.
func AccuracyWithin(ranked [][]int32, labels []int32, k int) float64 {
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
