package views

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// planes holds the red, green and blue of a batch of views, each [n, size, size].
type planes [3]*Node

// coloured jitters the colours of views [n, 3, size, size], and turns some to gray.
func coloured(x, params *Node) *Node {
	n, size := x.Shape().Dim(0), x.Shape().Dim(2)
	var c planes
	for i := range c {
		c[i] = Reshape(Slice(x, AxisRange(), AxisElem(i)), n, size, size)
	}
	for slot := range numBlends {
		if slot == blendsBeforeHue {
			c = shiftedHue(c, param(params, hueAt))
		}
		c = blended(c, param(params, blendAt+3*slot), param(params, blendAt+3*slot+1), param(params, blendAt+3*slot+2))
	}
	return Stack(c[:], 1)
}

// gray returns the luma, with torchvision's weights.
func (c planes) gray() *Node {
	return Add(Add(MulScalar(c[0], 0.2989), MulScalar(c[1], 0.587)), MulScalar(c[2], 0.114))
}

// blended sums the pixel, the mean gray of the image and the gray of the pixel with the given weights, each [n, 1, 1], within [0, 1].
// With f for the factor and gray for what stands in its place, torchvision's adjust_brightness has the weights f, 0, 0;
// adjust_contrast f, 1-f, 0; adjust_saturation f, 0, 1-f; rgb_to_grayscale 0, 0, 1; and 1, 0, 0 changes nothing.
func blended(c planes, pixel, meanGray, gray *Node) planes {
	g := c.gray()
	other := Add(Mul(meanGray, ReduceAndKeep(g, ReduceMean, 1, 2)), Mul(gray, g))
	for i := range c {
		c[i] = ClipScalar(Add(Mul(pixel, c[i]), other), 0, 1)
	}
	return c
}

// shiftedHue shifts the hue of each view by turns [n, 1, 1], within [-0.5, 0.5], as torchvision's adjust_hue. A shift of 0 leaves the
// view exactly as it is.
func shiftedHue(c planes, turns *Node) planes {
	r, g, b := c[0], c[1], c[2]
	top := Max(Max(r, g), b)
	chroma := Sub(top, Min(Min(r, g), b))
	divisor := Where(Equal(chroma, ZerosLike(chroma)), OnesLike(chroma), chroma)
	sector := Where(Equal(top, r), Div(Sub(g, b), divisor), // The hue in sixths of a turn, from -1 to 5.
		Where(Equal(top, g), AddScalar(Div(Sub(b, r), divisor), 2), AddScalar(Div(Sub(r, g), divisor), 4)))
	sector = Add(sector, MulScalar(turns, 6))

	// Going round the circle, a colour stays at the top for two sixths, falls for one, stays at the bottom for two, rises for one.
	unshifted := BroadcastToShape(Equal(turns, ZerosLike(turns)), r.Shape())
	for i, start := range []float64{5, 3, 1} {
		k := AddScalar(sector, start)
		k = Sub(k, MulScalar(Floor(DivScalar(k, 6)), 6))
		fall := ClipScalar(Min(k, Sub(Scalar(k.Graph(), k.DType(), 4), k)), 0, 1)
		c[i] = Where(unshifted, c[i], Sub(top, Mul(chroma, fall)))
	}
	return c
}
