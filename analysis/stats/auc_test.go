package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/semcon/semcon/analysis/stats"
)

// TestAUCCountsPairs compares with a count over all pairs of a positive and a negative, with many ties.
func TestAUCCountsPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, values := range []int{2, 7, 1000000} {
		scores, positive := make([]float64, 200), make([]bool, 200)
		for i := range scores {
			scores[i], positive[i] = float64(rng.IntN(values)), rng.IntN(3) == 0
		}
		won, pairs := 0.0, 0.0
		for i := range scores {
			for j := range scores {
				if positive[i] && !positive[j] {
					pairs++
					if scores[i] > scores[j] {
						won++
					} else if scores[i] == scores[j] {
						won += 0.5
					}
				}
			}
		}
		got, err := stats.AUC(scores, positive)
		if err != nil || !(math.Abs(got-won/pairs) <= 1e-12) {
			t.Errorf("AUC %g, want %g, %v", got, won/pairs, err)
		}
	}
}

func TestAUCRefuses(t *testing.T) {
	for _, test := range []struct {
		scores   []float64
		positive []bool
	}{{[]float64{1, 2}, []bool{true}}, {[]float64{1, 2}, []bool{true, true}}, {[]float64{1, 2}, []bool{false, false}}, {[]float64{1, math.NaN()}, []bool{true, false}}, {nil, nil}} {
		if got, err := stats.AUC(test.scores, test.positive); err == nil {
			t.Errorf("AUC of %v with %v is %g and no error", test.scores, test.positive, got)
		}
	}
}

func ExampleAUC() {
	auc, err := stats.AUC([]float64{0.9, 0.8, 0.7, 0.1}, []bool{true, false, true, false})
	if err != nil {
		panic(err)
	}
	fmt.Println(auc)
	// Output: 0.75
}
