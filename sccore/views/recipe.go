// Package views makes the augmented views that self-supervised training compares: random resized crop, horizontal flip, colour
// jitter, grayscale and Gaussian blur, in SimCLR's order, as operations of the computation graph over a whole batch.
//
// [Recipe.Draw] draws all randomness on the host, into a small tensor with a row of [NumParams] numbers for each view. [Apply] is a
// deterministic function of the images and this tensor. A transformation that a recipe leaves out gets neutral parameters, so one compiled
// graph serves every recipe. A row also holds the position of its view in the image; see [Boxes].
//
// Each transformation computes the same as torchvision's function of that name on float images. Add a transformation by giving it parameters below.
package views

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/settings"
)

// CropMode says how the views of an image are cropped.
type CropMode string

const (
	NoCrop          CropMode = "none"        // Resizes the whole image.
	IndependentCrop CropMode = "independent" // Draws a random resized crop for each view.
	SameCrop        CropMode = "same"        // Draws one random resized crop for all views of an image, as in the half-circle rows of the paper's Tab. effect_aug_full.
)

// MarshalText returns the mode, for records. An empty mode, of a recipe that is left out of a comparison, is written as none; views cannot be drawn with it.
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

// transform makes one view of one image. Its fields are arguments of torchvision's functions, in the order in which they are applied. Its
// row of parameters says the same to the graph.
type transform struct {
	top, left, height, width int // The box that is cropped and resized to the view's size, in pixels of the image.
	flip                     bool
	jitter                   []adjustment // In the order in which they are applied, each kind at most once.
	grayscale                bool
	kernel                   int     // Taps of the Gaussian blur, 3 or 5; 0 for none.
	sigma                    float64 // Its standard deviation, in pixels of the view.
}

// adjustment is one step of a colour jitter. The amount is a factor, or for the hue a shift in turns from -0.5 to 0.5.
type adjustment struct {
	kind   adjustmentKind
	amount float64
}

type adjustmentKind int

const (
	brightness adjustmentKind = iota
	contrast
	saturation
	hue
)

// NumParams is the number of parameters of a view.
const NumParams = tapsAt + numTaps

// The position of each parameter in a row.
const (
	boxAt   = 0                     // top, left, height, width
	flipAt  = boxAt + 4             // 1 to mirror, else 0
	blendAt = flipAt + 1            // numBlends times: the weights of the pixel, of the image's mean gray, and of the pixel's gray
	hueAt   = blendAt + 3*numBlends // turns
	tapsAt  = hueAt + 1             // the weights of a pixel at distance 0, 1 and 2
	numTaps = 3
)

// Brightness, contrast, saturation and grayscale are one operation, a blend, with different weights. A jitter has at most three blends, each
// before or after the change of hue. Grayscale comes last.
const (
	blendsBeforeHue = 3
	blendsAfterHue  = 3
	numBlends       = blendsBeforeHue + blendsAfterHue + 1
)

// appendTo appends the row of parameters.
func (t transform) appendTo(rows []float32) []float32 {
	rows = append(rows, make([]float32, NumParams)...)
	row := rows[len(rows)-NumParams:]
	for i, v := range []int{t.top, t.left, t.height, t.width} {
		row[boxAt+i] = float32(v)
	}
	if t.flip {
		row[flipAt] = 1
	}

	setBlend := func(slot int, pixel, meanGray, gray float64) {
		at := blendAt + 3*slot
		row[at], row[at+1], row[at+2] = float32(pixel), float32(meanGray), float32(gray)
	}
	for slot := range numBlends {
		setBlend(slot, 1, 0, 0)
	}
	slot := 0
	for _, a := range t.jitter {
		switch a.kind {
		case brightness:
			setBlend(slot, a.amount, 0, 0)
		case contrast:
			setBlend(slot, a.amount, 1-a.amount, 0)
		case saturation:
			setBlend(slot, a.amount, 0, 1-a.amount)
		case hue:
			row[hueAt] = float32(a.amount)
			slot = blendsBeforeHue
			continue
		}
		slot++
	}
	if t.grayscale {
		setBlend(numBlends-1, 0, 0, 1)
	}

	taps := gaussian(t.kernel, t.sigma)
	for i, w := range taps {
		row[tapsAt+i] = float32(w)
	}
	return rows
}

// gaussian returns the weights of a Gaussian kernel at distances 0, 1 and 2, as torchvision computes them.
func gaussian(kernel int, sigma float64) [numTaps]float64 {
	taps := [numTaps]float64{0: 1}
	sum := 1.0
	for d := 1; d <= kernel/2; d++ {
		taps[d] = math.Exp(-0.5 * math.Pow(float64(d)/sigma, 2))
		sum += 2 * taps[d]
	}
	for d := range taps {
		taps[d] /= sum
	}
	return taps
}

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
	t := transform{height: height, width: width} // Of the whole image.
	if r.Crop != NoCrop {
		shared := lo.Ternary(r.Crop == SameCrop, 0, view)
		t.top, t.left, t.height, t.width = r.crop(Stream(seed, epoch, image, shared, "crop"), height, width)
	}

	r.drawAppearance(Stream(seed, epoch, image, view, "look"), &t)
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
	kernel := lo.Ternary(random.Float64() < fiveTapShare, 5, 3)
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
		height = max(1, int(math.RoundToEven(float64(imageWidth)/r.MinAspect)))
	case aspect > r.MaxAspect:
		width = max(1, int(math.RoundToEven(float64(imageHeight)*r.MaxAspect)))
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

// Stream returns the random numbers of one purpose, such as "crop", for a view of an image in an epoch.
func Stream(seed uint64, epoch int, image int32, view int, purpose string) *rand.Rand {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[0:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(epoch))
	binary.LittleEndian.PutUint32(key[16:], uint32(image))
	binary.LittleEndian.PutUint32(key[20:], uint32(view))
	copy(key[24:], purpose)
	return rand.New(rand.NewChaCha8(key))
}

func uniform(random *rand.Rand, low, high float64) float64 { return low + (high-low)*random.Float64() }

// cropped crops the boxes from the images [batch, height, width, 3], resizes them to size, and flips them where the parameters say so. The
// views of an image are consecutive in the rows of params and in the result, [batch*views, 3, size, size]. full is the value of white.
//
// Resizing is separable. Each axis is a product with one matrix per view, made from the box.
func cropped(images, params *Node, views, size int, full float64) *Node {
	batch, width := images.Shape().Dim(0), images.Shape().Dim(2)
	rows, cols := resizing(images, params, views, size)
	x := DotGeneral(rows, []int{2}, []int{0}, images, []int{1}, []int{0})
	x = Reshape(x, batch*views, size, width, 3)
	x = DotGeneral(TransposeAllAxes(x, 0, 3, 1, 2), []int{3}, []int{0}, cols, []int{2}, []int{0})
	return DivScalar(x, full)
}

// resizing returns the matrices that crop and resize rows, [batch, views*size, height], and columns, [batch*views, size, width].
func resizing(images, params *Node, views, size int) (rows, cols *Node) {
	batch, height, width := images.Shape().Dim(0), images.Shape().Dim(1), images.Shape().Dim(2)
	rows = interpolation(param(params, boxAt), param(params, boxAt+2), nil, size, height)
	rows = ConvertDType(Reshape(rows, batch, views*size, height), images.DType())
	return rows, ConvertDType(interpolation(param(params, boxAt+1), param(params, boxAt+3), param(params, flipAt), size, width), images.DType())
}

// interpolation returns the matrices [n, size, extent] that resize a segment of a line to size pixels. The line has extent pixels. The segment starts
// at offset and has the given length, both [n, 1, 1]. Where flip [n, 1, 1] is 1, they also mirror it.
//
// As with torchvision's antialias=True, the weights are a triangle whose half-width is the larger of the pixel spacings of image and view. Pixels outside the
// segment have no weight.
func interpolation(offset, length, flip *Node, size, extent int) *Node {
	g := offset.Graph()
	to := Iota(g, shapes.Make(dtypes.Float32, 1, size, 1), 1)
	if flip != nil {
		to = Add(to, Mul(flip, Sub(Const(g, float32(size-1)), MulScalar(to, 2))))
	}
	from := AddScalar(Iota(g, shapes.Make(dtypes.Float32, 1, 1, extent), 2), 0.5)

	scale := DivScalar(length, float64(size))
	centre := Add(offset, Mul(AddScalar(to, 0.5), scale))
	weights := MaxScalar(OneMinus(Div(Abs(Sub(from, centre)), MaxScalar(scale, 1))), 0)
	inside := LogicalAnd(GreaterThan(from, offset), LessThan(from, Add(offset, length)))
	weights = Mul(weights, ConvertDType(inside, dtypes.Float32))
	return Div(weights, ReduceAndKeep(weights, ReduceSum, 2))
}
