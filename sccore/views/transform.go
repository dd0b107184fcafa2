package views

import "math"

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

// whole returns the transform that only resizes the whole image.
func whole(height, width int) transform { return transform{height: height, width: width} }

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
