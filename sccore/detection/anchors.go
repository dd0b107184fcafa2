package detection

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// anchorScale is the side of a square anchor in strides of its level (mmdetection's scales=[8]): 32 pixels at stride 4, 512 at stride 64.
const anchorScale = 8

// anchorRatios are the heights of the anchors of one place over their widths, at equal area.
var anchorRatios = [...]float64{0.5, 1, 2}

// Anchors returns the reference boxes of one level, [rows·columns·3, 4], of its stride in pixels: at each place, in reading order, one of each ratio,
// with the centre at the place times the stride, as mmdetection's AnchorGenerator.
func Anchors(g *Graph, dtype dtypes.DType, rows, columns, stride int) *Node {
	grid := shapes.Make(dtype, rows, columns, len(anchorRatios))
	x, y := MulScalar(Iota(g, grid, 1), stride), MulScalar(Iota(g, grid, 0), stride)
	var widths, heights []float64
	for _, ratio := range anchorRatios {
		side := float64(anchorScale*stride) / 2
		widths = append(widths, side/math.Sqrt(ratio))
		heights = append(heights, side*math.Sqrt(ratio))
	}
	half := func(values []float64) *Node { return ExpandLeftToRank(ConvertDType(Const(g, values), dtype), 3) }
	width, height := half(widths), half(heights)
	return Reshape(Stack([]*Node{Sub(x, width), Sub(y, height), Add(x, width), Add(y, height)}, -1), -1, 4)
}

// inside marks the anchors, [n, 4], that lie within each image, [batch, n]. Sizes are [batch, 2], heights and widths. Only those are trained, as with
// mmdetection's allowed_border=0.
func inside(anchors, sizes *Node) *Node {
	x1, y1, x2, y2 := sides(InsertAxes(anchors, 0))
	sizes = ConvertDType(sizes, anchors.DType())
	height, width := SliceAxis(sizes, 1, AxisElem(0)), SliceAxis(sizes, 1, AxisElem(1))
	zero := ZerosLike(x1)
	within := LogicalAnd(GreaterOrEqual(x1, zero), GreaterOrEqual(y1, zero))
	return LogicalAnd(within, LogicalAnd(LessThan(x2, width), LessThan(y2, height)))
}
