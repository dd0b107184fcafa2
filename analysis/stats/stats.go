// Package stats says what measured numbers mean. Values of runs go in; a mean with its interval over seeds ([MeanInterval]), its p-value ([PValue]) and the
// correction for several tests ([Holm]), rank correlation ([Spearman]), the area under the ROC curve ([AUC]), principal components and means by bin come out.
//
// The next statistic gets a file here and is compared with SciPy in testdata.
package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// AUC is the area under the ROC curve of scores, in [0, 1]: the probability that a random positive scores above a random negative, where a tie counts
// half. It says how well correspondences separate patches of one class from others: 1/2 is chance. It is an error if lengths differ, if a score is
// NaN, or if there are no positives or no negatives.
func AUC(scores []float64, positive []bool) (float64, error) {
	if len(scores) != len(positive) {
		return 0, fmt.Errorf("AUC: %d scores for %d labels", len(scores), len(positive))
	}
	if i := slices.IndexFunc(scores, math.IsNaN); i >= 0 {
		return 0, fmt.Errorf("AUC: score %d is NaN", i)
	}
	sum, positives := 0.0, 0.0
	for i, rank := range ranks(scores) {
		if positive[i] {
			sum += rank
			positives++
		}
	}
	negatives := float64(len(scores)) - positives
	if positives == 0 || negatives == 0 {
		return 0, fmt.Errorf("AUC: %d scores, %.0f of them positive: want positives and negatives", len(scores), positives)
	}
	return (sum - positives*(positives+1)/2) / (positives * negatives), nil
}

// MeanByBin averages values over the entries whose key falls into each of bins equal intervals of [0, 1], and returns the intervals' midpoints. The
// mean of an empty bin is NaN.
func MeanByBin(keys, values []float64, bins int) (middles, means []float64) {
	counts, means := make([]float64, bins), make([]float64, bins)
	for i, key := range keys {
		bin := min(bins-1, int(key*float64(bins)))
		counts[bin]++
		means[bin] += values[i]
	}
	for bin := range means {
		middles = append(middles, (float64(bin)+0.5)/float64(bins))
		means[bin] /= counts[bin]
	}
	return middles, means
}

// PrincipalComponents are the coordinates of rows, [n][dim], along the k directions of largest variance, [n][k], largest first. The sign of a direction makes
// its largest entry positive. It is an error if there are fewer than two rows, if lengths differ, if k is outside [1, dim], or if a number is not finite.
func PrincipalComponents(rows [][]float64, k int) ([][]float64, error) {
	if len(rows) < 2 || k < 1 || k > len(rows[0]) {
		return nil, fmt.Errorf("%d principal components of %d rows", k, len(rows))
	}
	dim := len(rows[0])
	centred := mat.NewDense(len(rows), dim, nil)
	mean := make([]float64, dim)
	for i, row := range rows {
		if len(row) != dim {
			return nil, fmt.Errorf("principal components: row %d has %d numbers, the first has %d", i, len(row), dim)
		}
		for j, x := range row {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("principal components: row %d has %v", i, x)
			}
			mean[j] += x / float64(len(rows))
		}
	}
	for i, row := range rows {
		for j, x := range row {
			centred.Set(i, j, x-mean[j])
		}
	}
	var covariance mat.SymDense
	covariance.SymOuterK(1/float64(len(rows)), centred.T())
	var eigen mat.EigenSym
	if !eigen.Factorize(&covariance, true) {
		return nil, errors.New("principal components: the covariance has no eigenvectors")
	}
	var vectors, coordinates mat.Dense
	eigen.VectorsTo(&vectors) // By ascending eigenvalue.
	directions := mat.NewDense(dim, k, nil)
	for c := range k {
		direction := mat.Col(nil, dim-1-c, &vectors)
		if slices.Max(direction) < -slices.Min(direction) {
			for j := range direction {
				direction[j] = -direction[j]
			}
		}
		directions.SetCol(c, direction)
	}
	coordinates.Mul(centred, directions)
	out := make([][]float64, len(rows))
	for i := range out {
		out[i] = mat.Row(nil, i, &coordinates)
	}
	return out, nil
}

// PValue is the p-value of the two-sided t-test for mean 0. It is below 1 − [Confidence] exactly if the interval of [MeanInterval] does not contain 0. It is
// NaN for fewer than two values and if a value is NaN. Equal values give 0, or 1 if they are 0.
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
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.CDF(-math.Abs(mean)*math.Sqrt(n)/sd)
}

// Holm corrects the p-values of several tests (Holm 1979, A Simple Sequentially Rejective Multiple Test Procedure), as R's p.adjust does: rejecting
// where the result is at most α errs anywhere among the tests with probability at most α, however they depend on each other. A test without a p-value,
// NaN, stays so and counts as one of the tests.
func Holm(p []float64) []float64 {
	sorted, order := slices.Clone(p), make([]int, len(p))
	for i, value := range sorted {
		if math.IsNaN(value) { // Last.
			sorted[i] = math.Inf(1)
		}
	}
	floats.Argsort(sorted, order)
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

// Confidence is the coverage of every interval: 95 %.
const Confidence = 0.95

// Interval is a mean over seeds with its standard deviation and 95 % t-interval.
type Interval struct {
	// Mean of the values.
	Mean float64
	// SD is the sample standard deviation (n − 1 in the denominator); NaN for fewer than two values.
	SD float64
	// Low and High bound the 95 % interval of the mean; NaN for fewer than two values.
	Low, High float64
	// N is the number of values, that is, of seeds.
	N int
}

// Text formats the bounds by a verb such as "%+.1f", with the sign −. It is empty without an interval.
func (i Interval) Text(verb string) string {
	if math.IsNaN(i.Low) {
		return ""
	}
	return strings.ReplaceAll(fmt.Sprintf(verb+" to "+verb, i.Low, i.High), "-", "−")
}

// MeanInterval is the mean of values with its t-interval, mean ± t(n − 1) · sd/√n. Without values everything is NaN; one value has only a mean. A NaN
// among the values makes everything NaN, so that a failed run is not left out silently.
func MeanInterval(values []float64) Interval {
	n, undefined := len(values), math.NaN()
	switch n {
	case 0:
		return Interval{Mean: undefined, SD: undefined, Low: undefined, High: undefined}
	case 1:
		return Interval{Mean: values[0], SD: undefined, Low: undefined, High: undefined, N: 1}
	}
	mean, sd := stat.MeanStdDev(values, nil)
	half := undefined
	if !math.IsNaN(sd) {
		half = distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile((1+Confidence)/2) * (sd / math.Sqrt(float64(n)))
	}
	return Interval{Mean: mean, SD: sd, Low: mean - half, High: mean + half, N: n}
}

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
	sorted, order, ranks := slices.Clone(values), make([]int, len(values)), make([]float64, len(values))
	floats.Argsort(sorted, order)
	for first := 0; first < len(order); {
		last := first
		for last+1 < len(order) && sorted[last+1] == sorted[first] {
			last++
		}
		for _, i := range order[first : last+1] {
			ranks[i] = float64(first+last)/2 + 1
		}
		first = last + 1
	}
	return ranks
}
