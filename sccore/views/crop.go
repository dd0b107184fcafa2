package views

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// cropped crops the boxes from the images [batch, height, width, 3], resizes them to size, and flips them where the parameters say so. The
// views of an image are consecutive in the rows of params and in the result, [batch*views, 3, size, size]. full is the value of white.
//
// Resizing is separable. Each axis is a product with one matrix per view, made from the box.
func cropped(images, params *Node, views, size int, full float64) *Node {
	batch, width := images.Shape().Dim(0), images.Shape().Dim(2)
	rows, cols := resizing(images, params, views, size)
	x := DotGeneral(rows, []int{2}, []int{0}, images, []int{1}, []int{0})
	x.AssertDims(batch, views*size, width, 3)
	x = Reshape(x, batch*views, size, width, 3)
	x = DotGeneral(TransposeAllAxes(x, 0, 3, 1, 2), []int{3}, []int{0}, cols, []int{2}, []int{0})
	x.AssertDims(batch*views, 3, size, size)
	return DivScalar(x, full)
}

// resizing returns the matrices that crop and resize rows, [batch, views*size, height], and columns, [batch*views, size, width].
func resizing(images, params *Node, views, size int) (rows, cols *Node) {
	batch, height, width := images.Shape().Dim(0), images.Shape().Dim(1), images.Shape().Dim(2)
	rows = interpolation(param(params, boxAt), param(params, boxAt+2), nil, size, height)
	rows = ConvertDType(Reshape(rows, batch, views*size, height), images.DType())
	return rows, ConvertDType(interpolation(param(params, boxAt+1), param(params, boxAt+3), param(params, flipAt), size, width), images.DType())
}

// interpolation returns the matrices [n, size, extent] that resize a segment of a line of extent pixels to size pixels. The segment starts
// at offset and has the given length, both [n, 1, 1]. Where flip [n, 1, 1] is 1, they also mirror it.
//
// As with torchvision's antialias=True, the weights are a triangle whose half-width is the pixel spacing of the image or that of the view,
// whichever is larger. Pixels outside the segment have no weight.
func interpolation(offset, length, flip *Node, size, extent int) *Node {
	g := offset.Graph()
	n := offset.Shape().Dim(0)
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
	weights = Div(weights, ReduceAndKeep(weights, ReduceSum, 2))
	weights.AssertDims(n, size, extent)
	return weights
}
