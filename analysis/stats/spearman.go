package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Spearman is the rank correlation of x and y in [−1, 1]: Pearson's correlation of their ranks, where tied values share the mean of their ranks. It
// is NaN if either is constant or holds a NaN. Fewer than two pairs and different lengths are errors.
func Spearman(x, y []float64) (float64, error) {
	if len(x) != len(y) || len(x) < 2 {
		return 0, fmt.Errorf("rank correlation: %d and %d values, want two or more of each, and equally many", len(x), len(y))
	}
	if slices.ContainsFunc(x, math.IsNaN) || slices.ContainsFunc(y, math.IsNaN) {
		return math.NaN(), nil
	}
	return stat.Correlation(ranks(x), ranks(y), nil), nil
}

// ranks counts from 1; tied values get the mean of the ranks that they cover.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	ranks := make([]float64, len(values))
	for first := 0; first < len(order); {
		last := first
		for last+1 < len(order) && values[order[last+1]] == values[order[first]] {
			last++
		}
		for _, i := range order[first : last+1] {
			ranks[i] = float64(first+last)/2 + 1
		}
		first = last + 1
	}
	return ranks
}
