package detection

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// Matcher assigns boxes to the objects of their image by IoU, as mmdetection's MaxIoUAssigner.
type Matcher struct {
	// Positive is the least IoU with its best object at which a box is positive.
	Positive float64
	// Negative is the IoU below which a box is negative. A box that is neither counts for nothing.
	Negative float64
	// LowQuality, if not 0, also makes the boxes of the highest IoU with an object positive, if that is at least LowQuality. Such a box belongs to that
	// object, and to the last one of several.
	LowQuality float64
}

// sameIoU is the factor above which an IoU counts as the highest. XLA may compute an IoU twice in different orders, with a relative difference of
// some 1e-7, so that none would equal the highest.
const sameIoU = 1 - 1e-6

// Matches is what [Matcher.Match] finds.
type Matches struct {
	Object   *Node // Index of the object of each box, [batch, n], int32. It has a meaning for positive boxes only.
	Positive *Node // [batch, n], bool.
	Negative *Node // [batch, n], bool.
}

// Match assigns boxes, [batch or 1, n, 4], to objects, [batch, objects, 4]. Present, [batch, objects], is false for padding. In an image without objects, all
// boxes are negative. Eligible, [batch, n], is false for boxes that no object gets, not even as its best one; they come out as negative. Nil means all boxes.
// No gradient passes.
func (m Matcher) Match(boxes, objects, present, eligible *Node) Matches {
	batch, count := objects.Shape().Dim(0), objects.Shape().Dim(1)
	present.AssertDims(batch, count)
	n := boxes.Shape().Dim(1)
	boxes = BroadcastToDims(StopGradient(boxes), batch, n, 4)
	g := boxes.Graph()
	iou := IoU(boxes, objects)
	meets := BroadcastToDims(InsertAxes(present, 1), batch, n, count)
	if eligible != nil {
		eligible.AssertDims(batch, n)
		meets = LogicalAnd(meets, BroadcastToDims(InsertAxes(eligible, 2), batch, n, count))
	}
	iou = Where(meets, iou, Scalar(g, iou.DType(), -1))

	best := ReduceMax(iou, 2)
	least := func(value float64) *Node { return Scalar(g, iou.DType(), value) }
	out := Matches{
		Object:   ArgMax(iou, 2),
		Positive: GreaterOrEqual(best, least(m.Positive)),
		Negative: LessThan(best, least(m.Negative)),
	}
	if m.LowQuality > 0 {
		highest := ReduceAndKeep(iou, ReduceMax, 1)
		chosen := LogicalAnd(GreaterOrEqual(iou, MulScalar(highest, sameIoU)), GreaterOrEqual(highest, least(m.LowQuality)))
		index := Iota(g, shapes.Make(dtypes.Int32, batch, n, count), 2)
		last := ReduceMax(Where(chosen, index, Scalar(g, dtypes.Int32, -1)), 2)
		low := GreaterOrEqual(last, ScalarZero(g, dtypes.Int32))
		out.Object = Where(low, last, out.Object)
		out.Positive = LogicalOr(out.Positive, low)
		out.Negative = LogicalAnd(out.Negative, LogicalNot(low))
	}
	out.Object.AssertDims(batch, n)
	return out
}
