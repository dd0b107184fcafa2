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

func ExampleConfusion_Recall() {
	// Nine pixels of class 0, of which one is missed, and one of class 1, which is missed.
	c := metrics.NewConfusion(2)
	c.AddCount(0, 0, 8)
	c.AddCount(0, 1, 1)
	c.AddCount(1, 0, 1)
	fmt.Printf("accuracy %.1f, mean recall %.1f\n", c.Segmentation().Accuracy, c.Recall())
	// Output: accuracy 80.0, mean recall 44.4
}
