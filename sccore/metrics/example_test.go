package metrics_test

import (
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/metrics"
	"gonum.org/v1/gonum/mat"
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

func ExampleConfusion_AddImage() {
	// One of two pixels of class 0 is predicted as 1. Class 1 has both of its pixels and the one too many; class 2 does not occur.
	c := metrics.NewConfusion(3)
	counts, err := c.AddImage([]uint8{0, 0, 1, 1, datasets.Ignore}, []uint8{0, 1, 1, 1, 2})
	fmt.Println(counts, c.At(0, 1), err)
	// Output: [[0 1 2] [1 2 3]] 1 <nil>
}

func ExampleMeasureSimilarity() {
	// Of ±(1, 0) and ±(0, 1) the other encoder sees the first axis alone. CKA is ‖yᵀx‖²/(‖xᵀx‖·‖yᵀy‖) = 2²/(√8·2) = 1/√2. The cosines are 1, 1, 0 and 0. Each place has
	// three others, which are its nearest.
	s, err := metrics.MeasureSimilarity([]float32{1, 0, -1, 0, 0, 1, 0, -1}, []float32{1, 0, -1, 0, 0, 0, 0, 0}, 2)
	fmt.Printf("CKA %.3f, cosine %.2f, kept %.0f, %v\n", s.CKA, s.Cosine, s.Kept, err)
	// Output: CKA 0.707, cosine 0.50, kept 1, <nil>
}

func ExamplePrecisionAtTop() {
	// The best one of four, the best two, and all.
	fmt.Println(metrics.PrecisionAtTop([]float64{0.1, 0.9, 0.8, 0.7}, []bool{false, true, false, true}, 0.25, 0.5, 1))
	// Output: [100 50 50]
}

func ExampleEffectiveRank() {
	// Two directions of equal variance and one without any; and shares of ½, ¼ and ¼, whose entropy is 1.5·log 2.
	even := mat.NewSymDense(3, []float64{5, 0, 0, 0, 0, 0, 0, 0, 5})
	uneven := mat.NewSymDense(3, []float64{2, 0, 0, 0, 1, 0, 0, 0, 1})
	fmt.Printf("%.2f %.2f\n", metrics.EffectiveRank(even), metrics.EffectiveRank(uneven))
	// Output: 2.00 2.83
}

func ExampleAssign() {
	// 8 + 7 is more than 9 + 1: the first row gets the second column.
	fmt.Println(metrics.Assign([]float64{9, 8, 7, 1}, 2))
	// Output: [1 0]
}

func ExampleMeanJF() {
	objects := []metrics.JF{
		{J: metrics.JFMeasure{Mean: 0.5, Recall: 0.25}, F: metrics.JFMeasure{Mean: 0.75, Recall: 1}},
		{J: metrics.JFMeasure{Mean: 0.75, Recall: 0.75}, F: metrics.JFMeasure{Mean: 1, Recall: 1}},
	}
	mean := metrics.MeanJF(objects)
	fmt.Println(mean.J.Mean, mean.J.Recall, mean.F.Mean, mean.Mean())
	// Output: 0.625 0.5 0.875 0.75
}
