package metrics

import "slices"

// Accuracy is the percentage of predictions equal to their labels; 0 if there are none.
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
