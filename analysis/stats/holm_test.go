package stats

import (
	"math"
	"testing"
)

func TestPValuesAgreeWithSciPy(t *testing.T) {
	for i, sample := range readGolden(t).Samples {
		if sample.PShifted == 0 {
			t.Fatal("the golden file has no p-value")
		}
		shifted := make([]float64, len(sample.A))
		for j, value := range sample.A {
			shifted[j] = value - 59
		}
		near(t, "p", PValue(shifted), sample.PShifted)
		interval := MeanInterval(shifted)
		if outside := interval.Low > 0 || interval.High < 0; outside != (sample.PShifted < 0.05) {
			t.Errorf("sample %d: p is %g and the interval %v", i, sample.PShifted, interval)
		}
	}
}

func TestPValueOfEqualAndMissingValues(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, math.NaN()}, {[]float64{3}, math.NaN()}, {[]float64{3, math.NaN()}, math.NaN()}, {[]float64{2, 2, 2}, 0}, {[]float64{0, 0}, 1},
		{[]float64{-1, 1}, 1}, {[]float64{0, 1}, 0.5}, // With one degree of freedom t is Cauchy: t = 1 has p = 1/2.
	} {
		near(t, "p", PValue(c.values), c.want)
	}
}

func TestHolm(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct{ p, want []float64 }{
		{nil, nil},
		{[]float64{0.04}, []float64{0.04}},
		{[]float64{0.01, 0.04, 0.03}, []float64{0.03, 0.06, 0.06}}, // 3·.01, then 2·.03, then max(.06, .04).
		{[]float64{0.5, 0.6}, []float64{1, 1}},
		{[]float64{0.02, 0.02}, []float64{0.04, 0.04}},
		{[]float64{nan, 0.01, nan}, []float64{nan, 0.03, nan}}, // What failed was tried, too.
	} {
		got := Holm(c.p)
		if len(got) != len(c.want) {
			t.Fatalf("%v of %v", got, c.p)
		}
		for i := range got {
			near(t, "corrected p", got[i], c.want[i])
		}
	}
}
