package views

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/samber/lo"
)

// Apply makes the views that params describe.
//
//   - images: [batch, height, width, 3], uint8, or float32 within [0, 1].
//   - params: [views*batch, NumParams] from [Recipe.Draw], drawn for images of this height and width.
//   - size: height and width of a view in pixels, at least 3.
//
// It returns [views*batch, size, size, 3] in float32 within [0, 1], in the order of params. Gradients do not pass through it.
func Apply(images, params *Node, size int) *Node {
	return ApplyIn(dtypes.Float32, images, params, size)
}

// ApplyIn is [Apply] in another dtype. In bfloat16 pixels move half the memory and are off by about one part in 255, as where every operation rounds to
// bytes. Weights of resizing and blur, hues and means are computed in float32.
func ApplyIn(dtype dtypes.DType, images, params *Node, size int) *Node {
	images.AssertRank(4)
	params.AssertDims(-1, NumParams)
	if size < numTaps {
		exceptions.Panicf("views of %d pixels are too small for the blur, which needs %d", size, numTaps)
	}
	batch := images.Shape().Dim(0)
	if params.Shape().Dim(0)%batch != 0 {
		exceptions.Panicf("%d rows of parameters are not a multiple of %d images", params.Shape().Dim(0), batch)
	}
	views := params.Shape().Dim(0) / batch
	images.AssertDims(batch, -1, -1, 3)

	// Internally the views of an image are consecutive, so that products with the images need no copies. Colours are planes, so that
	// operations run along whole rows.
	p := Reshape(params, views, batch, NumParams)
	p = Reshape(Transpose(p, 0, 1), batch*views, NumParams)

	full := lo.Ternary(images.DType() == dtypes.Uint8, 255., 1) // The value of white.
	images = ConvertDType(images, dtype)
	var x *Node
	if dtype.IsHalfPrecision() {
		x = narrowView(images, p, views, size, full)
	} else {
		x = blurred(coloured(cropped(images, p, views, size, full), p), p)
	}
	x = Reshape(x, batch, views, size, 3, size)
	x = TransposeAllAxes(x, 1, 0, 2, 4, 3)
	x = Reshape(x, views*batch, size, size, 3)
	return StopGradient(dividedLike(params, ClipScalar(x, 0, 1))) // Rounding may exceed 1 slightly.
}

// dividedLike divides views over several devices as their parameters are. XLA cannot tell how the rows of the views are divided, since they are transposed, and
// each device would encode all of them. It follows an operation with something that it knows to be divided: here a sum with zeros.
func dividedLike(params, x *Node) *Node {
	if x.Graph().NumDevices() == 1 {
		return x
	}
	zeros := MulScalar(ConvertDType(Slice(params, AxisRange(), AxisElem(0)), x.DType()), 0)
	return Add(x, InsertAxes(zeros, -1, -1))
}

// Boxes returns the crop of each view, [n, 4] for params [n, NumParams]: top, left, height and width in pixels of the image. It also returns
// the flips, [n]: 1 for a mirrored view, else 0.
func Boxes(params *Node) (boxes, flips *Node) {
	params.AssertDims(-1, NumParams)
	return Slice(params, AxisRange(), AxisRange(boxAt, boxAt+4)), Squeeze(Slice(params, AxisRange(), AxisElem(flipAt)), 1)
}

// Undistorted returns the parameters of the same crops and flips without jitter of colours, grayscale and blur, for params [n, NumParams].
func Undistorted(params *Node) *Node {
	kept, plain := make([]float32, NumParams), transform{}.appendTo(nil)
	for i := range blendAt {
		kept[i] = 1
	}
	row := func(values []float32) *Node { return InsertAxes(Const(params.Graph(), values), 0) }
	return Add(Mul(params, row(kept)), row(plain))
}

// param returns the parameter at the given position as [n, 1, 1], to broadcast over a plane of colour.
func param(params *Node, at int) *Node {
	return InsertAxes(Slice(params, AxisRange(), AxisElem(at)), -1)
}

// blurred blurs views [n, 3, size, size] with their Gaussian kernels and returns them with the rows first, [n, size, 3, size].
//
// The kernel is separable. Each axis is a product with one matrix per view.
func blurred(x, params *Node) *Node {
	matrix := blur(x, params, x.Shape().Dim(2))
	x = DotGeneral(x, []int{3}, []int{0}, matrix, []int{2}, []int{0})
	return DotGeneral(matrix, []int{2}, []int{0}, x, []int{2}, []int{0})
}

// blur returns the matrices that blur a line of views x of size pixels, [n, size, size].
func blur(x, params *Node, size int) *Node {
	matrix := Mul(param(params, tapsAt), InsertAxes(identity(x.Graph(), size), 0))
	for distance := 1; distance < numTaps; distance++ {
		neighbours := Const(x.Graph(), neighbours(size, distance))
		matrix = Add(matrix, Mul(param(params, tapsAt+distance), InsertAxes(neighbours, 0)))
	}
	return ConvertDType(matrix, x.DType())
}

// neighbours returns the matrix that sums the two pixels at a distance along a line of size pixels. As in torchvision, borders reflect
// without repeating the last pixel.
func neighbours(size, distance int) [][]float32 {
	matrix := make([][]float32, size)
	last := size - 1
	for i := range matrix {
		matrix[i] = make([]float32, size)
		matrix[i][abs(i-distance)]++
		matrix[i][last-abs(last-(i+distance))]++
	}
	return matrix
}

func abs(i int) int { return max(i, -i) }

// identity returns the identity matrix [size, size].
func identity(g *Graph, size int) *Node { return DiagonalWithValue(Const(g, float32(1)), size) }

// luma holds torchvision's weights of red, green and blue in gray.
var luma = []float32{0.2989, 0.587, 0.114}

// coloured jitters the colours of views [n, 3, size, size] and turns some views gray.
func coloured(x, params *Node) *Node {
	n, height, width := x.Shape().Dim(0), x.Shape().Dim(2), x.Shape().Dim(3)
	x = Reshape(x, n, 3, height*width)
	for slot := range numBlends {
		if slot == blendsBeforeHue {
			rgb := planes(Split(x, 1, 3)).hueShifted(param(params, hueAt))
			x = Concatenate(rgb[:], 1)
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
	x = DotGeneral(matrix, []int{2}, []int{0}, x, []int{1}, []int{0})
	return ClipScalar(Add(x, Mul(meanGray, InsertAxes(mean, -1))), 0, 1)
}

// planes are the red, green and blue of views, [n, 1, pixels] each.
type planes [3]*Node

// hueShifted shifts the hue by turns, [n, 1, 1], within [-0.5, 0.5], as torchvision's adjust_hue does. A shift of 0 leaves the view exactly as it is.
func (rgb planes) hueShifted(turns *Node) planes {
	red, green, blue := rgb[0], rgb[1], rgb[2]
	g, dtype := red.Graph(), red.DType()
	// RGB becomes hue, in sixths of a turn with red at 0, green at 2 and blue at 4; value, the highest of the three; and chroma, which is value times saturation.
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

// narrowView makes views in half precision, as cropped, coloured and blurred do: [batch*views, size, 3, size]. In this layout products need no
// transpositions on a GPU. Colours are computed in float32. The operations on each colour are their own, so that they move least memory, and between them
// pixels are bytes, as in PIL and torchvision: a compiler would keep them in float32.
func narrowView(images, params *Node, views, size int, full float64) *Node {
	batch, width, n := images.Shape().Dim(0), images.Shape().Dim(2), params.Shape().Dim(0)
	rows, cols := resizing(images, params, views, size)
	x := DotGeneral(rows, []int{2}, []int{0}, TransposeAllAxes(images, 0, 1, 3, 2), []int{1}, []int{0})
	x.AssertDims(batch, views*size, 3, width)
	x = DotGeneral(Reshape(x, n, size, 3, width), []int{3}, []int{0}, cols, []int{2}, []int{0})
	x.AssertDims(n, size, 3, size)

	rgb := planes(lo.Map(Split(x, 2, 3), func(plane *Node, _ int) *Node {
		return Reshape(DivScalar(ConvertDType(plane, dtypes.Float32), full), n, 1, size*size)
	}))
	for slot := range numBlends {
		if slot == blendsBeforeHue {
			rgb = rgb.rounded().hueShifted(param(params, hueAt))
		}
		if slot > 0 {
			rgb = rgb.rounded()
		}
		rgb = rgb.blended(param(params, blendAt+3*slot), param(params, blendAt+3*slot+1), param(params, blendAt+3*slot+2))
	}
	for i := range rgb {
		rgb[i] = Reshape(ConvertDType(rgb[i], x.DType()), n, size, 1, size)
	}
	x = Concatenate(rgb[:], 2)

	matrix := blur(x, params, size)
	x = DotGeneral(x, []int{3}, []int{0}, matrix, []int{2}, []int{0})
	return DotGeneral(matrix, []int{2}, []int{0}, x, []int{1}, []int{0})
}

// rounded rounds colours in [0, 1] to bytes.
func (rgb planes) rounded() planes {
	for i, x := range rgb {
		x = ConvertDType(Floor(AddScalar(MulScalar(x, 255), 0.5)), dtypes.Uint8)
		rgb[i] = DivScalar(ConvertDType(x, dtypes.Float32), 255)
	}
	return rgb
}

// blended is the function blended of planes.
func (rgb planes) blended(pixel, meanGray, gray *Node) planes {
	own := MulScalar(rgb[0], float64(luma[0]))
	for i := 1; i < len(rgb); i++ {
		own = Add(own, MulScalar(rgb[i], float64(luma[i])))
	}
	added := Add(Mul(gray, own), Mul(meanGray, ReduceAndKeep(own, ReduceMean, 2)))
	for i, x := range rgb {
		rgb[i] = ClipScalar(Add(Mul(pixel, x), added), 0, 1)
	}
	return rgb
}
