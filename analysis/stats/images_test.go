package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/semcon/semcon/analysis/stats"
)

// TestScoreOfImages: the score is the mean over classes of what is right among all, with images counted as often as weights say.
func TestScoreOfImages(t *testing.T) {
	b := make(stats.ByImage, 3)
	for _, patch := range []struct {
		image, class int
		right        bool
	}{{0, 0, true}, {0, 0, false}, {0, 2, true}, {1, 0, true}, {1, 2, false}, {1, 2, false}} { // The third image has none, nor has class 1.
		b.Add(patch.image, patch.class, patch.right)
	}
	for _, c := range []struct {
		weights []int
		want    float64
	}{{nil, (2./3 + 1./3) / 2}, {[]int{1, 1, 1}, (2./3 + 1./3) / 2}, {[]int{2, 0, 1}, (1./2 + 1) / 2}, {[]int{1, 3, 0}, (4./5 + 1./7) / 2}} {
		if got := b.Score(c.weights); !(math.Abs(got-100*c.want) <= 1e-9) {
			t.Errorf("weights %v: %g, want %g", c.weights, got, 100*c.want)
		}
	}
	if !math.IsNaN(b.Score([]int{0, 0, 5})) {
		t.Error("a score of nothing")
	}
}

// TestImageInterval: of accuracies the bootstrap gives the textbook's standard error; paired, the interval of a difference is that of the differences; and 95 % of
// intervals hold the true value.
func TestImageInterval(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	draw := func(images int, p float64) stats.ByImage {
		b := make(stats.ByImage, images)
		for i := range b {
			b.Add(i, 0, random.Float64() < p)
		}
		return b
	}
	const images = 400
	one := draw(images, 0.7)
	got := stats.ImageInterval(images, one.Score)
	share := got.Mean / 100
	half := 100 * 1.96 * math.Sqrt(share*(1-share)/images)
	if got.N != images || !(math.Abs(got.Mean-got.Low-half) <= 0.15*half) || !(math.Abs(got.High-got.Mean-half) <= 0.15*half) || !(math.Abs(got.SD-half/1.96) <= 0.1*half) {
		t.Errorf("%+v, want ± %.2f", got, half)
	}
	if again := stats.ImageInterval(images, one.Score); again != got {
		t.Errorf("%+v and then %+v", got, again)
	}
	if zero := stats.ImageInterval(images, func(w []int) float64 { return one.Score(w) - one.Score(w) }); zero.Low != 0 || zero.High != 0 {
		t.Errorf("a row minus itself: %+v", zero)
	}
	held := 0
	for range 200 {
		b := draw(100, 0.7)
		if i := stats.ImageInterval(100, b.Score); i.Low <= 70 && i.High >= 70 {
			held++
		}
	}
	if held < 180 || held > 198 {
		t.Errorf("%d of 200 intervals hold the true value", held)
	}
}
