package views

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/gomlx/gomlx/core/tensors"
)

// Draw draws the parameters of views of each image, [views*len(images), NumParams] in float32: the first views of all images, then all
// second views, and so on. Images have height×width pixels and are given by their index in the dataset.
//
// The parameters of a view depend only on the seed, the epoch, the image's index and the number of the view, not on the batch. Switching
// one transformation off does not change the others, and [SameCrop] uses the crops that [IndependentCrop] draws for the first views. So
// two recipes can be compared on the same randomness.
func (r Recipe) Draw(seed uint64, epoch int, images []int32, views, height, width int) *tensors.Tensor {
	rows := make([]float32, 0, views*len(images)*NumParams)
	for view := range views {
		for _, image := range images {
			rows = r.draw(seed, epoch, image, view, height, width).appendTo(rows)
		}
	}
	return tensors.FromFlatDataAndDimensions(rows, views*len(images), NumParams)
}

// draw draws one view. The crop has a random stream of its own because the number of draws for a crop varies.
func (r Recipe) draw(seed uint64, epoch int, image int32, view, height, width int) transform {
	t := whole(height, width)
	if r.Crop != NoCrop {
		shared := view
		if r.Crop == SameCrop {
			shared = 0
		}
		t.top, t.left, t.height, t.width = r.crop(stream(seed, epoch, image, shared, "crop"), height, width)
	}

	r.drawAppearance(stream(seed, epoch, image, view, "look"), &t)
	return t
}

// drawAppearance draws all transformations of a view except its crop.
func (r Recipe) drawAppearance(random *rand.Rand, t *transform) {
	// Everything is drawn, even if it is off.
	flip := random.Float64() < r.FlipProbability
	jitter := random.Float64() < r.JitterProbability
	adjustments := r.jitter(random)
	grayscale := random.Float64() < r.GrayscaleProbability
	blur := random.Float64() < r.BlurProbability
	kernel := 3
	if random.Float64() < fiveTapShare {
		kernel = 5
	}
	sigma := uniform(random, r.MinSigma, r.MaxSigma)

	t.flip = r.Flip && flip
	if r.Jitter && jitter {
		t.jitter = adjustments
	}
	t.grayscale = r.Grayscale && grayscale
	if r.Blur && blur {
		t.kernel, t.sigma = kernel, sigma
	}
}

// fiveTapShare is the share of blurs with 5 taps instead of 3, for a mean of 3.2.
const fiveTapShare = 0.1

// crop draws a box with torchvision's algorithm: up to ten tries for one that fits, then the largest central box of an allowed aspect ratio.
func (r Recipe) crop(random *rand.Rand, imageHeight, imageWidth int) (top, left, height, width int) {
	area := float64(imageHeight * imageWidth)
	for range 10 {
		area := area * uniform(random, r.MinScale, r.MaxScale)
		aspect := math.Exp(uniform(random, math.Log(r.MinAspect), math.Log(r.MaxAspect)))
		width = int(math.RoundToEven(math.Sqrt(area * aspect)))
		height = int(math.RoundToEven(math.Sqrt(area / aspect)))
		if 0 < width && width <= imageWidth && 0 < height && height <= imageHeight {
			return random.IntN(imageHeight - height + 1), random.IntN(imageWidth - width + 1), height, width
		}
	}
	height, width = imageHeight, imageWidth
	switch aspect := float64(imageWidth) / float64(imageHeight); {
	case aspect < r.MinAspect:
		height = int(math.RoundToEven(float64(imageWidth) / r.MinAspect))
	case aspect > r.MaxAspect:
		width = int(math.RoundToEven(float64(imageHeight) * r.MaxAspect))
	}
	return (imageHeight - height) / 2, (imageWidth - width) / 2, height, width
}

// jitter draws the four adjustments of a colour jitter, in a random order.
func (r Recipe) jitter(random *rand.Rand) []adjustment {
	spread := 0.8 * r.JitterStrength
	adjustments := make([]adjustment, 4)
	for i, kind := range random.Perm(4) {
		if adjustments[i].kind = adjustmentKind(kind); adjustments[i].kind == hue {
			adjustments[i].amount = uniform(random, -0.2*r.JitterStrength, 0.2*r.JitterStrength)
		} else {
			adjustments[i].amount = uniform(random, max(0, 1-spread), 1+spread)
		}
	}
	return adjustments
}

// stream returns the random stream of one purpose and view.
func stream(seed uint64, epoch int, image int32, view int, purpose string) *rand.Rand {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[0:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(epoch))
	binary.LittleEndian.PutUint32(key[16:], uint32(image))
	binary.LittleEndian.PutUint32(key[20:], uint32(view))
	copy(key[24:], purpose)
	return rand.New(rand.NewChaCha8(key))
}

func uniform(random *rand.Rand, low, high float64) float64 { return low + (high-low)*random.Float64() }
