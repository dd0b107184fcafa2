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
