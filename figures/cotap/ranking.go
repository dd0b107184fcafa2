package cotap

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/losses"
)

// Numbers of points in figures of a ranking.
const (
	thresholds = 80
	rankBins   = 10
)

// Ranking draws how CoTAP looks at the scores p of a student, given those of a teacher, q: one score in [0, 1] of each pair of patches. Left, the AP loss
// against the labels q ≥ t, by the threshold t. In the middle, those losses summed up over the pairs as thresholds, from the lowest on, over the number of
// pairs: it ends at the definition of CoTAP with γ = 1. Right, how hard a step of gradient descent moves a pair, by the place that the student gives it: the
// mean in each tenth of the ranking, over the mean size of all, for the third of the pairs that the teacher holds most alike and for the other thirds. The
// errors are those of [losses.AP].
func Ranking(p, q []float64) (figures.CurvesRow, error) {
	if len(p) < 10 {
		return nil, errors.New("a ranking of fewer than ten pairs")
	}
	byThreshold := figures.Series{Name: "AP loss"}
	low, high := slices.Min(q), slices.Max(q)
	for i := range thresholds {
		t := low + (high-low)*float64(i)/thresholds
		loss, err := losses.AP(p, q, t)
		if err != nil {
			return nil, err
		}
		byThreshold.X, byThreshold.Y = append(byThreshold.X, t), append(byThreshold.Y, loss)
	}
	_, gradient, err := losses.DefaultCoTAP().Evaluate(p, q)
	if err != nil {
		return nil, err
	}
	summed, err := summed(p, q)
	if err != nil {
		return nil, err
	}
	return figures.CurvesRow{
		{Title: "AP loss under each threshold", X: "threshold t", Y: "AP loss", Series: []figures.Series{byThreshold}},
		{Title: "summed over thresholds", X: "up to threshold t", Y: "sum / pairs", Series: []figures.Series{summed}},
		{Title: "pull on the ranking", X: "place in the student's ranking (%)", Y: "pull / mean pull (up > 0)", Series: pulls(p, q, gradient)},
	}, nil
}

// summed is the sum of the AP losses over the thresholds, in as many parts as there are points.
func summed(p, q []float64) (series figures.Series, err error) {
	series.Name = "CoTAP so far"
	sorted, sum, last := slices.Sorted(slices.Values(q)), 0.0, math.NaN()
	loss := 0.0
	for i, t := range sorted {
		if t != last {
			if loss, err = losses.AP(p, q, t); err != nil {
				return series, err
			}
			last = t
		}
		sum += loss
		if (i+1)*thresholds/len(sorted) > i*thresholds/len(sorted) {
			series.X, series.Y = append(series.X, t), append(series.Y, sum/float64(len(q)))
		}
	}
	return series, nil
}

// pulls are the means of the gradient against the place in the student's ranking.
func pulls(p, q, gradient []float64) []figures.Series {
	order := make([]int, len(p))
	size := 0.0
	for i := range order {
		order[i] = i
		size += math.Abs(gradient[i]) / float64(len(p))
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[b], p[a]) })
	sorted := slices.Sorted(slices.Values(q))
	groups := []figures.Series{{Name: "teacher: most alike"}, {Name: "between"}, {Name: "least alike"}}
	for bin := range rankBins {
		sums, counts := make([]float64, len(groups)), make([]float64, len(groups))
		for _, i := range order[bin*len(order)/rankBins : (bin+1)*len(order)/rankBins] {
			above := len(sorted) - sort.SearchFloat64s(sorted, q[i]) - 1
			group := min(max(above, 0)*len(groups)/len(sorted), len(groups)-1)
			sums[group] -= gradient[i] / max(size, math.SmallestNonzeroFloat64)
			counts[group]++
		}
		for g := range groups {
			mean := math.NaN()
			if counts[g] > 0 {
				mean = sums[g] / counts[g]
			}
			groups[g].X, groups[g].Y = append(groups[g].X, (float64(bin)+0.5)*100/rankBins), append(groups[g].Y, mean)
		}
	}
	return groups
}
