package views

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// luma holds torchvision's weights of red, green and blue in gray.
var luma = []float32{0.2989, 0.587, 0.114}

// coloured jitters the colours of views [n, 3, size, size] and turns some views gray.
func coloured(x, params *Node) *Node {
	n, height, width := x.Shape().Dim(0), x.Shape().Dim(2), x.Shape().Dim(3)
	x = Reshape(x, n, 3, height*width)
	for slot := range numBlends {
		if slot == blendsBeforeHue {
			x = planesOf(x).hueShifted(param(params, hueAt)).join()
		}
		x = blended(x, param(params, blendAt+3*slot), param(params, blendAt+3*slot+1), param(params, blendAt+3*slot+2))
	}
	return Reshape(x, n, 3, height, width)
}

// blended returns the weighted sum of each pixel's colour, the mean gray of its view, and the pixel's own gray, clipped to [0, 1]. Views are
// [n, 3, pixels], weights [n, 1, 1].
//
// For a factor f, torchvision's adjust_brightness has the weights f, 0, 0; adjust_contrast f, 1-f, 0; adjust_saturation f, 0, 1-f; and
// rgb_to_grayscale 0, 0, 1. The weights 1, 0, 0 change nothing.
//
// The sum is a product with a 3×3 matrix per view. Sums over planes of red, green and blue would be about 100 times slower on CPU, where XLA
// fuses a chain of them so that each plane computes the whole chain before it again.
func blended(x, pixel, meanGray, gray *Node) *Node {
	g := x.Graph()
	toGray := Const(g, [][]float32{luma})
	mean := ReduceAndKeep(Mul(ReduceMean(x, 2), toGray), ReduceSum, 1)
	matrix := Add(Mul(pixel, InsertAxes(identity(g, 3), 0)), Mul(gray, InsertAxes(toGray, 0)))
	matrix.AssertDims(x.Shape().Dim(0), 3, 3)
	x = DotGeneral(matrix, []int{2}, []int{0}, x, []int{1}, []int{0})
	return ClipScalar(Add(x, Mul(meanGray, InsertAxes(mean, -1))), 0, 1)
}

// planes are the red, green and blue of views, [n, 1, pixels] each.
type planes [3]*Node

// planesOf splits views, [n, 3, pixels], and join puts them together.
func planesOf(x *Node) (rgb planes) {
	for i := range rgb {
		rgb[i] = SliceAxis(x, 1, AxisElem(i))
	}
	return rgb
}

func (rgb planes) join() *Node { return Concatenate(rgb[:], 1) }

// hueShifted shifts the hue by turns, [n, 1, 1], within [-0.5, 0.5], as torchvision's adjust_hue does. A shift of 0 leaves the view exactly as it is.
func (rgb planes) hueShifted(turns *Node) planes {
	red, green, blue := rgb[0], rgb[1], rgb[2]
	g, dtype := red.Graph(), red.DType()
	// RGB becomes hue, in sixths of a turn with red at 0, green at 2 and blue at 4; value, the highest of the three; and chroma, which
	// is value times saturation.
	value := Max(Max(red, green), blue)
	chroma := Sub(value, Min(Min(red, green), blue))
	isRed, isGreen, isGray := Equal(value, red), Equal(value, green), Equal(chroma, ZerosLike(chroma))
	sector := Where(isRed, ZerosLike(value), Where(isGreen, Scalar(g, dtype, 2), Scalar(g, dtype, 4)))
	within := Where(isRed, Sub(green, blue), Where(isGreen, Sub(blue, red), Sub(red, green)))
	hue := Add(sector, Div(within, Where(isGray, OnesLike(chroma), chroma)))

	hue = Add(hue, MulScalar(turns, 6))
	hue = Sub(hue, MulScalar(Floor(DivScalar(hue, 6)), 6))

	// And back: each channel is the value minus a share of the chroma. Around the circle the share stays 0 for two sixths, rises for
	// one, stays 1 for two, and falls for one. Green's and blue's shares depend on the distance from their own hue. Red lies at the
	// seam of the circle, so its share depends on the distance from the opposite hue.
	unshifted := BroadcastToShape(Equal(turns, ZerosLike(turns)), red.Shape())
	for i, c := range [3]struct{ middle, offset, slope float64 }{{3, 2, -1}, {2, -1, 1}, {4, -1, 1}} {
		share := AddScalar(MulScalar(Abs(AddScalar(hue, -c.middle)), c.slope), c.offset)
		rgb[i] = Where(unshifted, rgb[i], Sub(value, Mul(chroma, ClipScalar(share, 0, 1))))
	}
	return rgb
}
