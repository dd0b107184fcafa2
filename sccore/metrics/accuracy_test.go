package metrics_test

import (
	"testing"

	"github.com/semcon/semcon/sccore/metrics"
)

func TestTopKAccuracy(t *testing.T) {
	ranked := [][]int32{{1, 2}, {2, 0}, {0, 1}, {2, 1}}
	for k, want := range map[int]float64{1: 25, 2: 75, 9: 75} {
		if got := metrics.TopKAccuracy(ranked, []int32{1, 0, 2, 1}, k); got != want {
			t.Errorf("top-%d accuracy %g, want %g", k, got, want)
		}
	}
	if got := metrics.TopKAccuracy(nil, nil, 5); got != 0 {
		t.Errorf("top-5 accuracy of no predictions is %g, want 0", got)
	}
}
