package stats_test

import (
	"fmt"

	"github.com/semcon/semcon/analysis/stats"
)

func ExampleMeanInterval() {
	// The accuracy of three seeds.
	accuracy := stats.MeanInterval([]float64{61.2, 62.0, 61.5})
	fmt.Printf("%.1f ± %.1f, 95 %% interval [%.1f, %.1f], %d seeds\n", accuracy.Mean, accuracy.SD, accuracy.Low, accuracy.High, accuracy.N)
	// Output: 61.6 ± 0.4, 95 % interval [60.6, 62.6], 3 seeds
}

func ExamplePValue() {
	// The mean of 0 and 1 is ½ and its standard error ½, so t is 1. With one degree of freedom t is Cauchy: half of its mass is outside ±1.
	fmt.Printf("%.3f\n", stats.PValue([]float64{0, 1}))
	// Output: 0.500
}

func ExampleHolm() {
	// 3 · 0.01, 2 · 0.03, and max(0.06, 0.04): a larger p-value never becomes the smaller one.
	fmt.Printf("%.2f\n", stats.Holm([]float64{0.01, 0.04, 0.03}))
	// Output: [0.03 0.06 0.06]
}

func ExamplePrincipalComponents() {
	// Along (0.6, 0.8), with the mean at (3, 4), the points are at −5, 0 and 5. They do not leave the line.
	components, err := stats.PrincipalComponents([][]float64{{0, 0}, {3, 4}, {6, 8}}, 1)
	fmt.Printf("%.2f %v\n", components, err)
	// Output: [[-5.00] [0.00] [5.00]] <nil>
}

func ExampleImageInterval() {
	// Half of 2500 images are right: the textbook's standard error is 100·√(½·½/2500) = 1, and the interval 50 ± 1.96.
	images := make(stats.ByImage, 2500)
	for i := range images {
		images.Add(i, 0, i%2 == 0)
	}
	interval := stats.ImageInterval(len(images), images.Score)
	fmt.Printf("%.1f, interval [%.0f, %.0f], %d images\n", interval.Mean, interval.Low, interval.High, interval.N)
	// Output: 50.0, interval [48, 52], 2500 images
}
