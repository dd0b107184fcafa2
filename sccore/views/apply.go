package views

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/support/exceptions"
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

	images, full := ConvertDType(images, dtype), pixelMaximum(images)
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

// pixelMaximum is the value of white.
func pixelMaximum(images *Node) float64 {
	if images.DType() == dtypes.Uint8 {
		return 255
	}
	return 1
}

// Boxes returns the crop of each view, [n, 4] for params [n, NumParams]: top, left, height and width in pixels of the image. It also returns
// the flips, [n]: 1 for a mirrored view, else 0.
func Boxes(params *Node) (boxes, flips *Node) {
	params.AssertDims(-1, NumParams)
	return Slice(params, AxisRange(), AxisRange(boxAt, boxAt+4)), Squeeze(Slice(params, AxisRange(), AxisElem(flipAt)), 1)
}

// param returns the parameter at the given position as [n, 1, 1], to broadcast over a plane of colour.
func param(params *Node, at int) *Node {
	return InsertAxes(Slice(params, AxisRange(), AxisElem(at)), -1)
}
