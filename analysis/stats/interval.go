package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

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

// MeanInterval is the mean of values with its t-interval, mean ± t(n − 1) · sd/√n. Without values everything is NaN; one value has only a mean. A NaN
// among the values makes everything NaN, so that a failed run is not left out silently.
func MeanInterval(values []float64) Interval {
	n := len(values)
	undefined := math.NaN()
	switch n {
	case 0:
		return Interval{Mean: undefined, SD: undefined, Low: undefined, High: undefined}
	case 1:
		return Interval{Mean: values[0], SD: undefined, Low: undefined, High: undefined, N: 1}
	}
	mean, sd := stat.MeanStdDev(values, nil)
	half := halfWidth(sd/math.Sqrt(float64(n)), float64(n-1))
	return Interval{Mean: mean, SD: sd, Low: mean - half, High: mean + half, N: n}
}

// halfWidth is half the width of a t-interval with this standard error.
func halfWidth(standardError, freedom float64) float64 {
	if math.IsNaN(standardError) || math.IsNaN(freedom) {
		return math.NaN()
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}
	return t.Quantile((1+Confidence)/2) * standardError
}
