// Package views makes the augmented views that self-supervised training compares: random resized crop, horizontal flip, colour
// jitter, grayscale and Gaussian blur, in SimCLR's order, as operations of the computation graph over a whole batch.
//
// [Recipe.Draw] draws all randomness on the host, into a small tensor with a row of [NumParams] numbers for each view. [Apply] is a
// deterministic function of the images and this tensor. A transformation that a recipe leaves out gets neutral parameters, so one compiled
// graph serves every recipe. A row also holds the position of its view in the image; see [Boxes].
//
// Each transformation computes the same as torchvision's function of that name on float images. Add a transformation by giving it
// parameters in transform.go.
package views

import (
	"cmp"
	"fmt"

	"github.com/semcon/semcon/sccore/settings"
)

// CropMode says how the views of an image are cropped.
type CropMode string

const (
	NoCrop          CropMode = "none"        // Resizes the whole image.
	IndependentCrop CropMode = "independent" // Draws a random resized crop for each view.
	SameCrop        CropMode = "same"        // Draws one random resized crop for all views of an image, as in the half-circle rows of the paper's Tab. effect_aug_full.
)

// MarshalText returns the mode, for records. The zero mode is NoCrop.
func (m CropMode) MarshalText() ([]byte, error) { return []byte(cmp.Or(m, NoCrop)), nil }

// Recipe selects the transformations that make the views of an image, and their strengths. Start from [Default].
type Recipe struct {
	Crop      CropMode `oneof:"none|independent|same"` // How views are cropped: none, independent, or same for one crop of both views.
	Blur      bool     // Whether views are blurred.
	Grayscale bool     // Whether views lose their colours.
	Jitter    bool     // Whether the colours of views are changed.
	Flip      bool     // Whether views are mirrored.

	MinScale  float64 `range:"[0,1]"`   // Least area of a crop as a share of the image; the area is uniform from MinScale to MaxScale.
	MaxScale  float64 `range:"[0,1]"`   // Largest area of a crop as a share of the image.
	MinAspect float64 `range:"[0,1e3]"` // Least aspect ratio of a crop, width over height; it is log-uniform from MinAspect to MaxAspect.
	MaxAspect float64 `range:"[0,1e3]"` // Largest aspect ratio of a crop.

	BlurProbability      float64 `range:"[0,1]"`   // Share of the views that are blurred.
	MinSigma             float64 `range:"[0,1e3]"` // Least standard deviation of the blur in pixels of the view; it is uniform from MinSigma to MaxSigma.
	MaxSigma             float64 `range:"[0,1e3]"` // Largest standard deviation of the blur.
	GrayscaleProbability float64 `range:"[0,1]"`   // Share of the views that lose their colours.
	JitterProbability    float64 `range:"[0,1]"`   // Share of the views whose colours are changed.
	JitterStrength       float64 `range:"[0,2.5]"` // SimCLR's s: brightness, contrast and saturation change by up to 0.8·s, the hue by up to 0.2·s turns (at most 0.5).
	FlipProbability      float64 `range:"[0,1]"`   // Share of the views that are mirrored.
}

// Default returns the recipe with all five transformations, at the strengths in the paper's appendix on the CIFAR study: crop scale
// (0.08, 1), blur in 50 % of the views, grayscale in 20 %, jitter in 80 % "with an intensity of 0.5", flip in 50 %.
//
// Where the paper says nothing, the recipe follows SimCLR: aspect ratios from 3/4 to 4/3, sigma from 0.1 to 2, and the intensity as SimCLR's
// strength s. Brightness, contrast and saturation then have factors in (0.6, 1.4) and the hue shifts by up to 0.1 turns, in random order.
// A kernel has an odd number of taps, but the paper gives a "mean kernel size of 3.2", 10 % of the 32 pixels as in SimCLR. Kernels have 3 taps
// with probability 0.9 and 5 taps with probability 0.1, which gives this mean.
func Default() Recipe {
	return Recipe{
		Crop: IndependentCrop, Blur: true, Grayscale: true, Jitter: true, Flip: true,
		MinScale: 0.08, MaxScale: 1, MinAspect: 3.0 / 4, MaxAspect: 4.0 / 3,
		BlurProbability: 0.5, MinSigma: 0.1, MaxSigma: 2,
		GrayscaleProbability: 0.2,
		JitterProbability:    0.8, JitterStrength: 0.5,
		FlipProbability: 0.5,
	}
}

// Rules returns an error that names the first range that is empty, even if its transformation is off; see [settings.Check].
func (r Recipe) Rules() error {
	if r.Crop != NoCrop && (r.MaxScale == 0 || r.MinAspect == 0) {
		return fmt.Errorf("max_scale %v and min_aspect %v must be above 0 for a crop", r.MaxScale, r.MinAspect)
	}
	return cmp.Or(settings.Between("min_scale", r.MinScale, 0, r.MaxScale), settings.Between("min_aspect", r.MinAspect, 0, r.MaxAspect),
		settings.Between("min_sigma", r.MinSigma, 0, r.MaxSigma))
}
