package analysis

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

// bounds are an interval as SciPy gives it.
type bounds struct {
	Mean, Low, High float64
	SD              *float64
}

func readGolden(t *testing.T) (golden struct {
	Samples []struct {
		A, B      []float64
		IntervalA bounds `json:"interval_a"`
		Welch     bounds
		Paired    *bounds
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
		compare(t, fmt.Sprintf("Welch %d", i), WelchDifference(sample.A, sample.B), sample.Welch)
		if sample.Paired != nil {
			paired, err := PairedDifference(sample.A, sample.B)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, fmt.Sprintf("paired %d", i), paired, *sample.Paired)
		}
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
	compare(t, "no spread in either", WelchDifference([]float64{2, 2}, []float64{1, 1, 1}), bounds{1, 1, 1, new(float64)})
	one := WelchDifference([]float64{2}, []float64{1, 1.5})
	compare(t, "one value", one, bounds{0.75, nan, nan, &nan})
	if one.N != 1 {
		t.Errorf("n = %d", one.N)
	}
}

func TestUnequalSamplesAreRefused(t *testing.T) {
	if _, err := PairedDifference([]float64{1}, nil); err == nil || err.Error() != "paired difference of 1 and 0 values: each seed needs both" {
		t.Error(err)
	}
	if _, err := Spearman([]float64{1, 2}, []float64{1}); err == nil || err.Error() != "rank correlation of 2 and 1 values: want as many of both, and two at least" {
		t.Error(err)
	}
	rho, err := Spearman([]float64{1, 2, 3}, []float64{1, math.NaN(), 3})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "a failed run", rho, math.NaN())
}

func ExamplePairedDifference() {
	withCrop := []float64{61.2, 60.8, 62.0} // seeds 1, 2, 3
	without := []float64{50.1, 50.9, 50.3}
	d, _ := PairedDifference(withCrop, without)
	fmt.Printf("%.1f ± %.1f, 95%% interval %.1f to %.1f, n = %d\n", d.Mean, d.SD, d.Low, d.High, d.N)
	// Output: 10.9 ± 0.9, 95% interval 8.6 to 13.2, n = 3
}

func ExampleWelchDifference() {
	d := WelchDifference([]float64{61.2, 60.8, 62.0}, []float64{50.1, 50.9, 50.3})
	fmt.Printf("%.1f, 95%% interval %.1f to %.1f\n", d.Mean, d.Low, d.High)
	// Output: 10.9, 95% interval 9.6 to 12.2
}

func ExampleSpearman() {
	transformations := []float64{1, 2, 3, 4, 5}
	accuracy := []float64{67.8, 67.8, 82.0, 85.4, 86.9} // Barlow Twins: a tie
	rho, _ := Spearman(transformations, accuracy)
	fmt.Printf("%.3f\n", rho)
	// Output: 0.975
}
