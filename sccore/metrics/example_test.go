package metrics_test

import (
	"fmt"

	"github.com/semcon/semcon/sccore/metrics"
)

func ExampleTopKAccuracy() {
	// A ranking of three classes for each of two images.
	ranked := [][]int32{{2, 0, 1}, {1, 2, 0}}
	labels := []int32{2, 2}
	fmt.Println(metrics.TopKAccuracy(ranked, labels, 1), metrics.TopKAccuracy(ranked, labels, 2))
	// Output: 50 100
}
