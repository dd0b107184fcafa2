package evaluation

import (
	"math"
	"slices"
	"testing"

	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/dispersion"
	"gonum.org/v1/gonum/mat"
)

// TestRates: two classes of directions, and one patch on the wrong side.
func TestRates(t *testing.T) {
	p := dispersion.Patches{Features: mat.NewDense(4, 2, []float64{1, 0.1, 1, -0.1, -1, 0.1, -1, 0}), Class: []int{0, 0, 1, 0}, Instance: []int{0, 1, 2, 3}}
	top, details, err := rates(p, 4)
	if err != nil {
		t.Fatal(err)
	}
	// 3 of 6 pairs are positive. The nearest are 2 and 3 with different classes, then 0 and 1 with one.
	if top != 0 || math.Abs(details[DetailAllPairs]-50) > 1e-9 || math.Abs(details[BinRate(3)]-50) > 1e-9 || math.Abs(details[BinPairs(3)]-100.0/3) > 1e-9 {
		t.Errorf("top %g, %v", top, details)
	}
	if _, ok := details[BinRate(1)]; ok {
		t.Error("a bin without pairs has a rate")
	}
	p.Instance = []int{0, 0, 0, 0}
	if _, _, err := rates(p, 4); err == nil {
		t.Error("one image alone is no error")
	}
}

func TestSeedsOfNoiseRateShareNoImages(t *testing.T) {
	var all []int
	for seed := range uint64(5) {
		all = append(all, drawn(443, 88, seed)...)
	}
	if len(all) != 440 || len(lo.Uniq(all)) != 440 || slices.Min(all) < 0 || slices.Max(all) > 442 {
		t.Errorf("five seeds have %d images, %d different ones", len(all), len(lo.Uniq(all)))
	}
	if again := drawn(443, 88, 5); !slices.Equal(again, all[:88]) || slices.Equal(again, drawn(443, 88, 1)) {
		t.Errorf("seed 5 has %v, seed 0 %v", again, all[:88])
	}
}
