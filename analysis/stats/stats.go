// Package stats says what measured numbers mean. Values of runs go in; a mean with its interval over seeds ([MeanInterval]), its p-value ([PValue]) and the
// correction for several tests ([Holm]), rank correlation ([Spearman]), the area under the ROC curve ([AUC]), principal components, clusters ([KMeans]) and means by bin come out.
//
// The next statistic gets a file here and is compared with SciPy in testdata.
package stats

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/samber/lo"
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
	for i, row := range rows {
		if sum := floats.Sum(row); len(row) != dim || math.IsNaN(sum) || math.IsInf(sum, 0) {
			return nil, fmt.Errorf("principal components: row %d has %d numbers with the sum %v, the first has %d", i, len(row), sum, dim)
		}
	}
	centred := mat.NewDense(len(rows), dim, slices.Concat(rows...))
	for c := range dim {
		column := mat.Col(nil, c, centred)
		floats.AddConst(-stat.Mean(column, nil), column)
		centred.SetCol(c, column)
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
			floats.Scale(-1, direction)
		}
		directions.SetCol(c, direction)
	}
	coordinates.Mul(centred, directions)
	return lo.Times(len(rows), func(i int) []float64 { return mat.Row(nil, i, &coordinates) }), nil
}

// PValue is the p-value of the two-sided t-test for mean 0. It is below 1 − [Confidence] exactly if the interval of [MeanInterval] does not contain 0. It is
// NaN for fewer than two values and if a value is NaN. Equal values give 0, or 1 if they are 0.
func PValue(values []float64) float64 {
	n := float64(len(values))
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
	order := make([]int, len(p)) // Without a p-value a test is last.
	floats.Argsort(lo.Map(p, func(value float64, _ int) float64 { return lo.Ternary(math.IsNaN(value), math.Inf(1), value) }), order)
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
	Mean      float64
	SD        float64 // The sample standard deviation (n − 1 in the denominator); NaN for fewer than two values.
	Low, High float64 // Bounds of the 95 % interval of the mean; NaN for fewer than two values.
	N         int     // The number of values, that is, of seeds.
}

// Text formats the bounds by a verb such as "%+.1f", with the sign −. It is empty without an interval.
func (i Interval) Text(verb string) string {
	return lo.Ternary(math.IsNaN(i.Low), "", strings.ReplaceAll(fmt.Sprintf(verb+" to "+verb, i.Low, i.High), "-", "−"))
}

// MeanInterval is the mean of values with its t-interval, mean ± t(n − 1) · sd/√n. Without values everything is NaN; one value has only a mean. A NaN
// among the values makes everything NaN, so that a failed run is not left out silently.
func MeanInterval(values []float64) Interval {
	n := len(values)
	mean, sd := stat.MeanStdDev(values, nil)
	half := math.NaN()
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

// ByImage are the counts behind a score, of each test image: triples of a class, how much of it is right, and how much of it counts. The score is 100 times the mean
// over classes of what is right among all that counts.
type ByImage [][][3]int

// Score returns the score of images that count as often as weights say, one for each; nil for once each. Classes without anything that counts are left out.
func (b ByImage) Score(weights []int) float64 {
	var right, all []int // By class.
	for i, classes := range b {
		times := 1
		if weights != nil {
			times = weights[i]
		}
		for _, c := range classes {
			for len(all) <= c[0] {
				right, all = append(right, 0), append(all, 0)
			}
			right[c[0]] += times * c[1]
			all[c[0]] += times * c[2]
		}
	}
	sum, count := 0.0, 0
	for class, n := range all {
		if n > 0 {
			sum, count = sum+float64(right[class])/float64(n), count+1
		}
	}
	return 100 * sum / float64(count)
}

// Add counts a patch or an image of a class, right or not.
func (b ByImage) Add(image, class int, right bool) {
	at := slices.IndexFunc(b[image], func(c [3]int) bool { return c[0] == class })
	if at < 0 {
		at, b[image] = len(b[image]), append(b[image], [3]int{class})
	}
	if b[image][at][2]++; right {
		b[image][at][1]++
	}
}

// resamples is the number of draws of a bootstrap.
const resamples = 1000

// ImageInterval is the 95 % interval of what a quantity would be with other test images of the same kind: the percentiles of a bootstrap, which draws as many images
// with replacement (Efron 1979, Bootstrap Methods). quantity takes how often each image counts, see [ByImage.Score]. Scores that are compared take the same draw, and so
// are paired. N is the number of images, SD the standard deviation over draws, which are the same in each call.
func ImageInterval(images int, quantity func(weights []int) float64) Interval {
	random, drawn := rand.New(rand.NewPCG(1, uint64(images))), make([]float64, resamples)
	for i := range drawn {
		weights := make([]int, images)
		for range images {
			weights[random.IntN(images)]++
		}
		drawn[i] = quantity(weights)
	}
	slices.Sort(drawn)
	at := func(p float64) float64 { return stat.Quantile(p, stat.LinInterp, drawn, nil) }
	return Interval{Mean: quantity(nil), SD: stat.StdDev(drawn, nil), Low: at((1 - Confidence) / 2), High: at((1 + Confidence) / 2), N: images}
}

// KMeans returns the cluster of each point, from 0 to k−1, after 20 rounds of Lloyd's algorithm, which may not have converged. The first centre is the first point. Each
// further one is the point farthest from the centres so far. So the result is always the same. Fewer points than k make fewer clusters.
func KMeans(points [][]float64, k int) (labels []int) {
	if k = min(k, len(points)); k == 0 {
		return nil
	}
	var centres [][]float64
	nearest := func(point []float64) (label int, distance float64) {
		distances := lo.Map(centres, func(centre []float64, _ int) float64 { return floats.Distance(point, centre, 2) })
		label = floats.MinIdx(distances)
		return label, distances[label]
	}
	for centres = append(centres, points[0]); len(centres) < k; {
		centres = append(centres, lo.MaxBy(points, func(a, b []float64) bool {
			_, ofA := nearest(a)
			_, ofB := nearest(b)
			return ofA > ofB
		}))
	}
	for range 20 {
		labels = lo.Map(points, func(point []float64, _ int) int { label, _ := nearest(point); return label })
		for label := range centres {
			mean, members := make([]float64, len(points[0])), lo.Count(labels, label)
			for i, point := range points {
				if labels[i] == label {
					floats.AddScaled(mean, 1/float64(members), point)
				}
			}
			if members > 0 {
				centres[label] = mean
			}
		}
	}
	return labels
}
