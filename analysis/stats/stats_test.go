package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

// bounds are an interval computed by SciPy.
type bounds struct {
	Mean, Low, High float64
	SD              *float64
}

func readGolden(t *testing.T) (golden struct {
	Samples []struct {
		A         []float64
		IntervalA bounds  `json:"interval_a"`
		PShifted  float64 `json:"p_shifted"` // Of a − 59.
	}
	Ranks []struct {
		X, Y []float64
		Rho  *float64
	}
}) {
	t.Helper()
	data, err := os.ReadFile("testdata/statistics.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	return golden
}

// near checks a number; NaN equals NaN.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func compare(t *testing.T, what string, got Interval, want bounds) {
	t.Helper()
	near(t, what+" mean", got.Mean, want.Mean)
	near(t, what+" low", got.Low, want.Low)
	near(t, what+" high", got.High, want.High)
	if want.SD != nil {
		near(t, what+" sd", got.SD, *want.SD)
	}
}

func TestIntervalsAgreeWithSciPy(t *testing.T) {
	samples := readGolden(t).Samples
	if len(samples) != 5 {
		t.Fatalf("%d samples", len(samples))
	}
	for i, sample := range samples {
		compare(t, fmt.Sprintf("sample %d", i), MeanInterval(sample.A), sample.IntervalA)
	}
}

func TestSpearmanAgreesWithSciPy(t *testing.T) {
	ranks := readGolden(t).Ranks
	if len(ranks) != 6 {
		t.Fatalf("%d pairs", len(ranks))
	}
	for i, pair := range ranks {
		want := math.NaN()
		if pair.Rho != nil {
			want = *pair.Rho
		}
		got, err := Spearman(pair.X, pair.Y)
		if err != nil {
			t.Fatal(err)
		}
		near(t, fmt.Sprintf("pair %d", i), got, want)
	}
}

func TestDegenerateSamples(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		values []float64
		want   Interval
	}{
		{nil, Interval{nan, nan, nan, nan, 0}},
		{[]float64{3}, Interval{3, nan, nan, nan, 1}},
		{[]float64{3, 3, 3}, Interval{3, 0, 3, 3, 3}},
		{[]float64{3, nan}, Interval{nan, nan, nan, nan, 2}},
	} {
		got := MeanInterval(c.values)
		compare(t, fmt.Sprint(c.values), got, bounds{c.want.Mean, c.want.Low, c.want.High, &c.want.SD})
		if got.N != c.want.N {
			t.Errorf("%v: n = %d, want %d", c.values, got.N, c.want.N)
		}
	}
}

func TestUnequalSamplesAreRefused(t *testing.T) {
	if _, err := Spearman([]float64{1, 2}, []float64{1}); err == nil || err.Error() != "rank correlation: 2 and 1 values, want two or more of each, and equally many" {
		t.Error(err)
	}
	rho, err := Spearman([]float64{1, 2, 3}, []float64{1, math.NaN(), 3})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "a failed run", rho, math.NaN())
}

func ExampleSpearman() {
	transformations := []float64{1, 2, 3, 4, 5}
	accuracy := []float64{67.8, 67.8, 82.0, 85.4, 86.9} // Barlow Twins: a tie
	rho, _ := Spearman(transformations, accuracy)
	fmt.Printf("%.3f\n", rho)
	// Output: 0.975
}
