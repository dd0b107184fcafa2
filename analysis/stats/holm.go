package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// PValue is that of the two-sided t-test that the mean is 0: below 1 − [Confidence] exactly where the interval of [MeanInterval] leaves out 0. It is NaN
// for fewer than two values and if a value is NaN. Equal values give 0, or 1 if they are 0.
func PValue(values []float64) float64 {
	n := float64(len(values))
	if n < 2 {
		return math.NaN()
	}
	mean, sd := stat.MeanStdDev(values, nil)
	switch {
	case math.IsNaN(sd):
		return math.NaN()
	case sd == 0 && mean == 0:
		return 1
	case sd == 0:
		return 0
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}
	return 2 * t.CDF(-math.Abs(mean)*math.Sqrt(n)/sd)
}

// Holm corrects the p-values of several tests (Holm 1979, A Simple Sequentially Rejective Multiple Test Procedure), as R's p.adjust does: rejecting
// where the result is at most α errs anywhere among the tests with probability at most α, however they depend on each other. A test without a p-value,
// NaN, stays so and counts as one of the tests.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) float64 { // NaN last.
		if math.IsNaN(p[i]) {
			return math.Inf(1)
		}
		return p[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	corrected, most := make([]float64, len(p)), 0.0
	for before, i := range order {
		corrected[i] = math.NaN()
		if !math.IsNaN(p[i]) {
			most = max(most, min(1, float64(len(p)-before)*p[i]))
			corrected[i] = most
		}
	}
	return corrected
}
