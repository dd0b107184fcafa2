package finetune

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// Normalize returns crops as an encoder takes them. Colours are scaled to [0, 1], less the mean and divided by the deviation of red, green and blue. Beyond the
// image they are 0, the mean colour: padding comes after normalization.
//
//   - pixels: [n, height, width, 3] in uint8, as in [SegmentationBatch].
//   - sizes: [n, 2] in int32, the height and width of the image in the top left corner of each crop.
//
// It returns [n, height, width, 3] in float32.
func Normalize(pixels, sizes *Node, mean, std [3]float64) *Node {
	g, shape := pixels.Graph(), pixels.Shape()
	pixels.AssertDims(-1, -1, -1, 3)
	sizes.AssertDims(shape.Dim(0), 2)
	colour := func(c [3]float64) *Node {
		return Const(g, [][][][]float32{{{{float32(c[0]), float32(c[1]), float32(c[2])}}}})
	}
	x := Div(Sub(DivScalar(ConvertDType(pixels, dtypes.Float32), 255), colour(mean)), colour(std))
	inside := func(axis int) *Node {
		place := Iota(g, shapes.Make(dtypes.Int32, shape.Dimensions...), axis)
		return LessThan(place, BroadcastToShape(InsertAxes(Slice(sizes, AxisRange(), AxisElem(axis-1)), -1, -1), place.Shape()))
	}
	return Where(And(inside(1), inside(2)), x, ZerosLike(x))
}
