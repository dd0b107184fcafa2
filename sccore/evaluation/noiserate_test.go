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
	if top != 0 || !(math.Abs(details[DetailAllPairs]-50) <= 1e-9) || !(math.Abs(details[BinRate(3)]-50) <= 1e-9) || !(math.Abs(details[BinPairs(3)]-100.0/3) <= 1e-9) {
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

// TestRatesByHand: five directions, between any two of which lies another multiple of 15°, so that each tenth of the pairs is one pair. From the most similar on, these
// are 1, 2, 3, 4, 5, 7, 8, 9, 10 and 11 times 15° apart. Of them the 1st, the 5th, the 9th and the 10th are of one class.
func TestRatesByHand(t *testing.T) {
	places := []float64{0, 1, 4, 9, 11, 2} // The last one has no class.
	p := dispersion.Patches{Features: mat.NewDense(6, 2, nil), Class: []int{0, 0, 1, 1, 0, -1}, Instance: []int{0, 1, 2, 3, 4, 5}}
	for i, place := range places {
		sin, cos := math.Sincos(place * math.Pi / 12)
		p.Features.(*mat.Dense).SetRow(i, []float64{3 * cos, 3 * sin})
	}
	top, details, err := rates(p, 5)
	if err != nil || top != 100 {
		t.Fatalf("top %g, %v", top, err)
	}
	// Deciles 1, 2, 6 and 10 have 100 %. They lie −4.5, −3.5, 0.5 and 4.5 from the middle, −3 in all. The squares of all ten sum to 82.5, and those of the rates'
	// differences from 40 % to 2.4. Trend is a correlation of ranks, of which rates have only two.
	want := map[string]float64{
		DetailAllPairs: 40, detailPairs: 1e-5, DetailSlope: -300 / 82.5, DetailTrend: -3 / math.Sqrt(82.5*2.4),
		DecileRate(0): 100, DecileRate(1): 100, DecileRate(2): 0, DecileRate(3): 0, DecileRate(4): 0, DecileRate(5): 100, DecileRate(6): 0, DecileRate(7): 0, DecileRate(8): 0, DecileRate(9): 100,
		// Cosines from −1 on: 11, 10, 9 times 15°; 8, 7; none; 5, 4; 3, 2, 1.
		BinPairs(0): 30, BinPairs(1): 20, BinPairs(2): 0, BinPairs(3): 20, BinPairs(4): 30,
		BinRate(0): 200. / 3, BinRate(1): 0, BinRate(3): 50, BinRate(4): 100. / 3,
	}
	for name, value := range want {
		if got, ok := details[name]; !ok || !(math.Abs(got-value) <= 1e-9) {
			t.Errorf("%s: %g, want %g", name, got, value)
		}
	}
	if len(details) != len(want) {
		t.Errorf("%d details, want %d: %v", len(details), len(want), details)
	}
	p.Class = make([]int, 6)
	_, details, err = rates(p, 5)
	if _, ok := details[DetailTrend]; err != nil || ok || details[DetailSlope] != 0 || details[DetailAllPairs] != 100 {
		t.Errorf("of one class alone: %v, %v", details, err)
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
