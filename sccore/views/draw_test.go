package views

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/settings"
)

// study holds the rows of the paper's Tab. effect_aug_full: the transformations (a) to (e) of each row.
var study = []struct {
	crop                          CropMode
	blur, grayscale, jitter, flip bool
}{
	{IndependentCrop, true, true, true, true},
	{IndependentCrop, true, true, true, false},
	{IndependentCrop, true, true, false, false},
	{IndependentCrop, true, false, false, false},
	{IndependentCrop, false, false, false, false},
	{NoCrop, true, true, true, true},
	{NoCrop, true, true, true, false},
	{NoCrop, true, true, false, false},
	{NoCrop, true, false, false, false},
	{SameCrop, true, true, true, true},
	{SameCrop, true, true, true, false},
	{SameCrop, true, true, false, false},
	{SameCrop, true, false, false, false},
}

func TestEachRowOfTheStudyDrawsItsTransformationsAlone(t *testing.T) {
	const draws = 300
	for _, row := range study {
		t.Run(fmt.Sprintf("%v blur=%t grayscale=%t jitter=%t flip=%t", row.crop, row.blur, row.grayscale, row.jitter, row.flip), func(t *testing.T) {
			r := Default()
			r.Crop, r.Blur, r.Grayscale, r.Jitter, r.Flip = row.crop, row.blur, row.grayscale, row.jitter, row.flip
			if err := settings.Check(r); err != nil {
				t.Fatal(err)
			}
			var cropped, unequal, blurred, gray, jittered, flipped int
			for image := range int32(draws) {
				var pair [2]transform
				for view := range pair {
					all, d := Default().draw(1, 2, image, view, 32, 32), r.draw(1, 2, image, view, 32, 32)
					pair[view] = d
					count(&cropped, d.box() != transform{height: 32, width: 32}.box())
					count(&blurred, d.kernel != 0)
					count(&gray, d.grayscale)
					count(&jittered, d.jitter != nil)
					count(&flipped, d.flip)
					if r.Blur && (d.kernel != all.kernel || d.sigma != all.sigma) || r.Grayscale && d.grayscale != all.grayscale ||
						r.Jitter && fmt.Sprint(d.jitter) != fmt.Sprint(all.jitter) || r.Flip && d.flip != all.flip ||
						r.Crop == IndependentCrop && d.box() != all.box() {
						t.Fatalf("view %d of image %d is %+v, with all transformations on %+v", view, image, d, all)
					}
				}
				count(&unequal, pair[0].box() != pair[1].box())
			}
			for _, c := range []struct {
				name string
				on   bool
				n    int
			}{
				{"cropped", row.crop != NoCrop, cropped}, {"cropped differently", row.crop == IndependentCrop, unequal},
				{"blurred", row.blur, blurred}, {"gray", row.grayscale, gray}, {"jittered", row.jitter, jittered}, {"flipped", row.flip, flipped},
			} {
				if c.on != (c.n > 0) {
					t.Errorf("%d of %d images are %s", c.n, draws, c.name)
				}
			}
		})
	}
}

func TestDrawFollowsTheRecipesDistribution(t *testing.T) {
	const n = 20000
	r := Default()
	var flips, jitters, grays, blurs, taps, minScale, maxScale, logAspect float64
	minScale = 1
	orders := map[[4]adjustmentKind]int{}
	for image := range int32(n) {
		d := r.draw(7, 0, image, 1, 224, 224)
		scale := float64(d.height*d.width) / (224 * 224)
		minScale, maxScale = min(minScale, scale), max(maxScale, scale)
		logAspect += math.Log(float64(d.width)/float64(d.height)) / n
		if aspect := float64(d.width) / float64(d.height); aspect < r.MinAspect-0.02 || aspect > r.MaxAspect+0.02 {
			t.Errorf("image %d has a crop of %d x %d", image, d.height, d.width)
		}
		if d.top < 0 || d.left < 0 || d.top+d.height > 224 || d.left+d.width > 224 {
			t.Errorf("image %d has its crop outside: %+v", image, d)
		}
		if d.flip {
			flips++
		}
		if d.grayscale {
			grays++
		}
		if d.kernel != 0 {
			blurs++
			taps += float64(d.kernel)
			if d.kernel != 3 && d.kernel != 5 || d.sigma < r.MinSigma || d.sigma > r.MaxSigma {
				t.Errorf("image %d has a blur of %d taps, sigma %v", image, d.kernel, d.sigma)
			}
		}
		if d.jitter != nil {
			jitters++
			var order [4]adjustmentKind
			for i, a := range d.jitter {
				order[i] = a.kind
				if a.kind == hue && math.Abs(a.amount) > 0.1 || a.kind != hue && math.Abs(a.amount-1) > 0.4+1e-9 {
					t.Errorf("image %d has adjustment %d by %v", image, a.kind, a.amount)
				}
			}
			orders[order]++
		}
	}
	near := func(what string, got, want, tolerance float64) {
		t.Helper()
		if !(math.Abs(got-want) <= tolerance) {
			t.Errorf("%s is %v, not within %v of %v", what, got, tolerance, want)
		}
	}
	near("share of flips", flips/n, 0.5, 0.015)
	near("share of jitters", jitters/n, 0.8, 0.012)
	near("share of grays", grays/n, 0.2, 0.012)
	near("share of blurs", blurs/n, 0.5, 0.015)
	near("mean kernel size", taps/blurs, 3.2, 0.025)
	near("smallest scale", minScale, 0.08, 0.005)
	near("largest scale", maxScale, 1, 0.01)
	near("mean of the aspect's logarithm", logAspect, 0, 0.005)
	if len(orders) != 24 {
		t.Errorf("%d orders of jitter, not 24", len(orders))
	}
	for order, times := range orders {
		near(fmt.Sprintf("share of order %v", order), float64(times)/jitters, 1.0/24, 0.007)
	}
}

func TestDrawDependsOnSeedEpochImageAndViewAlone(t *testing.T) {
	draw := func(seed uint64, epoch int, images ...int32) []float32 {
		return flat(t, Default().Draw(seed, epoch, images, 2, 32, 32))
	}
	row := func(rows []float32, i int) string { return fmt.Sprint(rows[i*NumParams:][:NumParams]) }
	base := draw(1, 0, 10, 11, 12)
	if again := draw(1, 0, 10, 11, 12); fmt.Sprint(again) != fmt.Sprint(base) {
		t.Error("the same seed draws something else")
	}
	alone := draw(1, 0, 12)
	if row(alone, 0) != row(base, 2) || row(alone, 1) != row(base, 5) {
		t.Error("image 12 has other views alone than in a batch of three")
	}
	seen := map[string]bool{}
	for i := range 6 {
		seen[row(base, i)] = true
	}
	for i := range 6 {
		seen[row(draw(2, 0, 10, 11, 12), i)] = true
		seen[row(draw(1, 1, 10, 11, 12), i)] = true
	}
	if len(seen) != 18 {
		t.Errorf("%d different views of three images for two seeds and two epochs, not 18", len(seen))
	}
}

// TestUndistortedKeepsCropsAndFlips: the parameters are those that a recipe draws without jitter, grayscale and blur.
func TestUndistortedKeepsCropsAndFlips(t *testing.T) {
	r := Default()
	images := []int32{0, 1, 2, 3, 4, 5, 6, 7}
	plain := r
	plain.Blur, plain.Grayscale, plain.Jitter = false, false, false
	want := tensors.MustCopyFlatData[float32](plain.Draw(1, 2, images, 2, 40, 50))
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		all := r.Draw(1, 2, images, 2, 40, 50)
		got := tensors.MustCopyFlatData[float32](graph.MustExecOnce(b, Undistorted, all))
		if !slices.Equal(got, want) || slices.Equal(tensors.MustCopyFlatData[float32](all), want) {
			t.Errorf("%v\nwant %v", got, want)
		}
	})
}

func TestCropFallsBackToTheCentre(t *testing.T) {
	r := Default()
	r.MinScale = 0.99 // No box of an allowed aspect is that large a part of these images.
	for _, c := range []struct{ height, width, top, left, boxHeight, boxWidth int }{
		{30, 100, 0, 30, 30, 40},
		{100, 30, 30, 0, 40, 30},
	} {
		d := r.draw(1, 0, 0, 0, c.height, c.width)
		if want := [4]int{c.top, c.left, c.boxHeight, c.boxWidth}; d.box() != want {
			t.Errorf("%d x %d is cropped to %v, not %v", c.height, c.width, d.box(), want)
		}
	}
	r.MinAspect, r.MaxAspect = 100, 1000 // No box of pixels in 32×32 has such a shape.
	if d := r.draw(1, 0, 0, 0, 32, 32); d.height != 1 || d.width != 32 {
		t.Errorf("32 x 32 is cropped to %v", d.box())
	}
	if r.MinAspect, r.MaxAspect = 1e-3, 1e-2; r.draw(1, 0, 0, 0, 32, 32).width != 1 {
		t.Error("a crop of no width")
	}
}

func TestCheckNamesTheStrength(t *testing.T) {
	if err := settings.Check(Recipe{Crop: NoCrop}); err != nil {
		t.Errorf("a recipe that does nothing: %v", err)
	}
	for name, spoil := range map[string]func(*Recipe){
		"crop \"some":           func(r *Recipe) { r.Crop = "some" },
		"max_scale":             func(r *Recipe) { r.MaxScale = 1.5 },
		"min_scale":             func(r *Recipe) { r.MinScale = -1 },
		"max_aspect":            func(r *Recipe) { r.MaxAspect = math.Inf(1) },
		"max_scale 0":           func(r *Recipe) { r.MinScale, r.MaxScale = 0, 0 },
		"min_aspect 0":          func(r *Recipe) { r.MinAspect = 0 },
		"min_aspect":            func(r *Recipe) { r.MinAspect = 2 },
		"blur_probability":      func(r *Recipe) { r.BlurProbability = math.NaN() },
		"max_sigma":             func(r *Recipe) { r.MaxSigma = -1 },
		"min_sigma":             func(r *Recipe) { r.MinSigma = 3 },
		"grayscale_probability": func(r *Recipe) { r.GrayscaleProbability = 2 },
		"jitter_probability":    func(r *Recipe) { r.JitterProbability = -0.1 },
		"jitter_strength":       func(r *Recipe) { r.JitterStrength = 9 },
		"flip_probability":      func(r *Recipe) { r.FlipProbability = 1.1 },
	} {
		r := Default()
		spoil(&r)
		if err := settings.Check(r); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a bad %s gives the error %v", name, err)
		}
	}
}

func count(n *int, yes bool) {
	if yes {
		*n++
	}
}

func (t transform) box() [4]int { return [4]int{t.top, t.left, t.height, t.width} }

func flat(t testing.TB, x *tensors.Tensor) []float32 {
	t.Helper()
	values, err := tensors.CopyFlatData[float32](x)
	if err != nil {
		t.Fatal(err)
	}
	return values
}
