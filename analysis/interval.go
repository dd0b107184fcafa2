package analysis

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Confidence is the coverage of every interval: 95 %.
const Confidence = 0.95

// Interval is a mean over seeds with its spread and its 95 % t-interval.
type Interval struct {
	// Mean of the values, or difference of two means.
	Mean float64
	// SD is the sample standard deviation (n − 1 in the denominator); NaN below two values.
	SD float64
	// Low and High bound the 95 % interval of the mean; NaN below two values.
	Low, High float64
	// N is the number of values: seeds, pairs of seeds, or the smaller of two samples.
	N int
}

// MeanInterval is the mean of values with its t-interval, mean ± t(n − 1) · sd/√n. Without values all is NaN; one value has a mean and
// no more. A NaN among the values makes everything NaN: a failed run is not left out silently.
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

// PairedDifference is the mean of a[i] − b[i] with its t-interval, for runs that share seed i. Samples of different length are an error.
func PairedDifference(a, b []float64) (Interval, error) {
	if len(a) != len(b) {
		return Interval{}, fmt.Errorf("paired difference of %d and %d values: each seed needs both", len(a), len(b))
	}
	differences := make([]float64, len(a))
	for i := range a {
		differences[i] = a[i] - b[i]
	}
	return MeanInterval(differences), nil
}

// WelchDifference is mean(a) − mean(b) with Welch's t-interval, for independent samples whose variances may differ. SD is that of the
// difference of one value of a and one of b, √(s_a² + s_b²). It and the interval are NaN where a sample has fewer than two values.
//
// Source: B. L. Welch, The generalization of "Student's" problem when several different population variances are involved, Biometrika 1947.
func WelchDifference(a, b []float64) Interval {
	x, y := MeanInterval(a), MeanInterval(b)
	result := Interval{Mean: x.Mean - y.Mean, SD: math.Hypot(x.SD, y.SD), N: min(x.N, y.N)}
	varX, varY := x.SD*x.SD/float64(x.N), y.SD*y.SD/float64(y.N)
	variance := varX + varY
	half := 0.0
	if variance != 0 { // two constant samples: the degrees of freedom are 0/0, the interval is a point
		freedom := variance * variance / (varX*varX/float64(x.N-1) + varY*varY/float64(y.N-1))
		half = halfWidth(math.Sqrt(variance), freedom)
	}
	result.Low, result.High = result.Mean-half, result.Mean+half
	return result
}

// halfWidth is half the width of a t-interval with this standard error.
func halfWidth(standardError, freedom float64) float64 {
	if math.IsNaN(standardError) || math.IsNaN(freedom) {
		return math.NaN()
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}
	return t.Quantile((1+Confidence)/2) * standardError
}
