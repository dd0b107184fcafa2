package detection

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/samber/lo"
)

// smallest is the floor, in pixels and in square pixels, of the sides and areas by which is divided or whose logarithm is taken, as mmdetection's eps.
const smallest = 1e-6

// largestGrowth bounds the decoded logarithm of the growth of a side: a side of 16 pixels grows to at most 1000 (detectron2, _DEFAULT_SCALE_CLAMP).
var largestGrowth = math.Log(1000.0 / 16)

// sides returns x1, y1, x2 and y2 of boxes, [..., 4], each [...].
func sides(boxes *Node) (x1, y1, x2, y2 *Node) {
	side := func(i int) *Node { return Squeeze(SliceAxis(boxes, -1, AxisElem(i)), -1) }
	return side(0), side(1), side(2), side(3)
}

// area returns the areas, [...], of boxes, [..., 4].
func area(boxes *Node) *Node {
	x1, y1, x2, y2 := sides(boxes)
	return Mul(Sub(x2, x1), Sub(y2, y1))
}

// overlap returns the intersection and the union of the areas of two boxes. Their shapes, [..., 4], broadcast to each other.
func overlap(a, b *Node) (intersection, union *Node) {
	ax1, ay1, ax2, ay2 := sides(a)
	bx1, by1, bx2, by2 := sides(b)
	width := MaxScalar(Sub(Min(ax2, bx2), Max(ax1, bx1)), 0)
	height := MaxScalar(Sub(Min(ay2, by2), Max(ay1, by1)), 0)
	intersection = Mul(width, height)
	return intersection, Sub(Add(area(a), area(b)), intersection)
}

// IoU returns the intersection over union of each box of a, [batch, n, 4], with each box of b, [batch, m, 4], as [batch, n, m]. Boxes are x1, y1, x2, y2
// in pixels. It is torchvision.ops.box_iou, but 0 instead of NaN for two boxes without area.
func IoU(a, b *Node) *Node {
	a.AssertRank(3)
	b.AssertDims(a.Shape().Dim(0), -1, 4)
	intersection, union := overlap(InsertAxes(a, 2), InsertAxes(b, 1))
	return Div(intersection, MaxScalar(union, smallest))
}

// GIoU returns the generalised intersection over union (Rezatofighi et al., 2019) of each box of a with the box of b at the same place, both [..., 4],
// as [...]: the IoU minus the share of the smallest enclosing box that neither covers. It is in [-1, 1] and equals
// torchvision.ops.generalized_box_iou for boxes with an area.
func GIoU(a, b *Node) *Node {
	intersection, union := overlap(a, b)
	ax1, ay1, ax2, ay2 := sides(a)
	bx1, by1, bx2, by2 := sides(b)
	enclosing := Mul(Sub(Max(ax2, bx2), Min(ax1, bx1)), Sub(Max(ay2, by2), Min(ay1, by1)))
	enclosing = MaxScalar(enclosing, smallest)
	return Sub(Div(intersection, MaxScalar(union, smallest)), Div(Sub(enclosing, union), enclosing))
}

// ClipBoxes moves the sides of boxes, [batch, n, 4], that lie outside their image to its border. Sizes, [batch, 2], are the heights and widths of the images
// in pixels.
func ClipBoxes(boxes, sizes *Node) *Node {
	boxes.AssertDims(-1, -1, 4)
	sizes.AssertDims(boxes.Shape().Dim(0), 2)
	yx := InsertAxes(ConvertDType(sizes, boxes.DType()), 1)
	height, width := SliceAxis(yx, -1, AxisElem(0)), SliceAxis(yx, -1, AxisElem(1))
	return MaxScalar(Min(boxes, Concatenate([]*Node{width, height, width, height}, -1)), 0)
}

// Coder expresses boxes relative to reference boxes (Girshick et al., R-CNN, 2014): the shift of the centre as a share of the reference's sides, and the
// logarithm of the growth of the sides, each divided by a deviation. It is torchvision's BoxCoder with weights 1/deviations, mmdetection's
// DeltaXYWHBBoxCoder with means 0 and detectron2's Box2BoxTransform. A coder is the standard deviations of x, y, width and height, by which codes are divided.
type Coder [4]float64

// centred returns the centres and the lengths of the sides of boxes, [..., 4].
func centred(boxes *Node) (x, y, width, height *Node) {
	x1, y1, x2, y2 := sides(boxes)
	width, height = Sub(x2, x1), Sub(y2, y1)
	return Add(x1, MulScalar(width, 0.5)), Add(y1, MulScalar(height, 0.5)), width, height
}

// Encode returns the codes of boxes relative to references, both [..., 4]. Sides count as at least 1e-6 pixels, so that boxes without area, such as padding,
// have finite codes.
func (c Coder) Encode(references, boxes *Node) *Node {
	rx, ry, rw, rh := centred(references)
	x, y, w, h := centred(boxes)
	floor := func(side *Node) *Node { return MaxScalar(side, smallest) }
	rw, rh = floor(rw), floor(rh)
	codes := []*Node{Div(Sub(x, rx), rw), Div(Sub(y, ry), rh), Log(Div(floor(w), rw)), Log(Div(floor(h), rh))}
	for i, code := range codes {
		codes[i] = DivScalar(code, c[i])
	}
	return Stack(codes, -1)
}

// Decode returns the boxes whose codes relative to references, [..., 4], are codes, [..., 4]. A side grows at most by the factor 1000/16.
func (c Coder) Decode(references, codes *Node) *Node {
	rx, ry, rw, rh := centred(references)
	dx, dy, dw, dh := sides(codes)
	x := Add(rx, Mul(rw, MulScalar(dx, c[0])))
	y := Add(ry, Mul(rh, MulScalar(dy, c[1])))
	w := MulScalar(Mul(rw, Exp(MinScalar(MulScalar(dw, c[2]), largestGrowth))), 0.5)
	h := MulScalar(Mul(rh, Exp(MinScalar(MulScalar(dh, c[3]), largestGrowth))), 0.5)
	return Stack([]*Node{Sub(x, w), Sub(y, h), Add(x, w), Add(y, h)}, -1)
}

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
		side, root := float64(anchorScale*stride)/2, math.Sqrt(ratio)
		widths, heights = append(widths, side/root), append(heights, side*root)
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

// take returns the elements of x, [batch, n, ...], at indices, [batch, k], as [batch, k, ...]. The gradient passes to x.
//
// The batch and the elements become one axis, because the Go engine's gradient is wrong for gathers of windows.
func take(x, indices *Node) *Node {
	batch, n := x.Shape().Dim(0), x.Shape().Dim(1)
	indices.AssertDims(batch, -1)
	offset := MulScalar(Iota(x.Graph(), shapes.Make(dtypes.Int32, batch, 1), 0), n)
	rows := Reshape(x, slices.Insert(slices.Clone(x.Shape().Dimensions[2:]), 0, batch*n)...)
	return Gather(rows, InsertAxes(Add(ConvertDType(indices, dtypes.Int32), offset), -1))
}

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
	return out
}

// Sampler draws boxes for the losses, as mmdetection's RandomSampler: at most Positives of the positive ones, and negative ones up to Count in all.
type Sampler struct {
	Count     int // Boxes an image.
	Positives int // The most of them that are positive.
}

// Samples are the boxes that [Sampler.Sample] draws, in places of a fixed number. The positive ones come first.
type Samples struct {
	Index    *Node // Index of the box, [batch, Count], int32.
	Positive *Node // [batch, Count], bool. True only in the first Positives places.
	Valid    *Node // [batch, Count], bool. False in the places left over where an image has fewer boxes.
}

// Sample draws from the boxes that positive and negative, [batch, n], mark. The uniform numbers, [batch, n], decide: the highest are taken, and the lower index
// among equals. They come from outside, so that the same numbers give the same samples on every backend.
func (s Sampler) Sample(positive, negative, uniform *Node) Samples {
	batch, n := uniform.Shape().Dim(0), uniform.Shape().Dim(1)
	g := uniform.Graph()
	positives, isPositive := Best(uniform, positive, s.Positives)
	negatives, isNegative := Best(uniform, negative, s.Count)
	number := func(mask *Node) *Node { return ReduceAndKeep(ConvertDType(mask, dtypes.Int32), ReduceSum, 1) }
	first, second := number(isPositive), number(isNegative)

	// Place i holds positive box i, or negative box i less the number of positive ones.
	place := Iota(g, shapes.Make(dtypes.Int32, batch, s.Count), 1)
	rest := Sub(place, first)
	takesPositive := LessThan(place, first)
	from := Where(takesPositive, place, AddScalar(rest, min(n, s.Positives)))
	from = MinScalar(from, min(n, s.Positives)+min(n, s.Count)-1)
	index := take(Concatenate([]*Node{positives, negatives}, 1), from)
	return Samples{Index: index, Positive: takesPositive, Valid: LogicalOr(takesPositive, LessThan(rest, second))}
}

// NMS is non-maximum suppression: it keeps a box unless a kept box of a higher score overlaps it by an IoU above threshold. Of equal scores, the lower
// index is the higher. It equals torchvision.ops.batched_nms with that rule for ties.
//
//   - boxes: [batch, n, 4], x1, y1, x2, y2.
//   - scores: [batch, n].
//   - groups: [batch, n], integers; boxes of different groups, such as classes, do not suppress each other. Nil means one group.
//   - present: [batch, n], bool; absent boxes are not kept and suppress none.
//
// It returns the mask of the kept boxes, [batch, n]. No gradient passes.
//
// The greedy algorithm visits the boxes one after the other. Here, all are judged at once, by the kept ones of the previous round, until a round changes
// nothing. The first round is right for the boxes that no box can suppress, each further one for those that depend only on boxes that are right, so the
// number of rounds is the length of the longest chain of overlaps, and the fixed point is the greedy result.
func NMS(boxes, scores, groups, present *Node, threshold float64) *Node {
	boxes.AssertDims(-1, -1, 4)
	batch, n := boxes.Shape().Dim(0), boxes.Shape().Dim(1)
	scores.AssertDims(batch, n)
	present.AssertDims(batch, n)
	boxes, scores = StopGradient(boxes), StopGradient(scores)
	g := boxes.Graph()

	// suppresses[b, i, j]: box j, if kept, removes box i.
	row, column := InsertAxes(scores, 2), InsertAxes(scores, 1)
	index := shapes.Make(dtypes.Int32, batch, n, n)
	earlier := LessThan(Iota(g, index, 2), Iota(g, index, 1))
	higher := LogicalOr(GreaterThan(column, row), LogicalAnd(Equal(column, row), earlier))
	suppresses := LogicalAnd(GreaterThan(IoU(boxes, boxes), Scalar(g, boxes.DType(), threshold)), higher)
	if groups != nil {
		groups.AssertDims(batch, n)
		suppresses = LogicalAnd(suppresses, Equal(InsertAxes(groups, 2), InsertAxes(groups, 1)))
	}

	// Masks are numbers inside the loop, and sums are products, because go-xla cannot reduce by one operation in two functions; zeros are differences, because
	// GoMLX shares scalars between functions, which it then refuses. The condition computes something and the result is the last part of the state, because the Go
	// engine fails where the last node of a function has a lower number than a parameter or result.
	there := ConvertDType(present, dtypes.Float32)
	state := []*Node{Scalar(g, dtypes.Float32, 1), there, ConvertDType(suppresses, dtypes.Float32), there}
	parameters := func(g *Graph) (changes, there, suppresses, keep *Node) {
		p := lo.Map(state, func(node *Node, i int) *Node { return Parameter(g, fmt.Sprintf("state%d", i), node.Shape()) })
		return p[0], p[1], p[2], p[3]
	}
	again := NewClosure(g, func(g *Graph) []*Node {
		changes, _, _, _ := parameters(g)
		return []*Node{GreaterThan(changes, Sub(changes, changes))}
	})
	round := NewClosure(g, func(g *Graph) []*Node {
		_, there, suppresses, keep := parameters(g)
		none := Sub(there, there)
		suppressors := DotGeneral(suppresses, []int{2}, []int{0}, keep, []int{1}, []int{0})
		next := Where(GreaterThan(suppressors, none), none, there)
		change := Reshape(Sub(next, keep), batch*n)
		return []*Node{DotGeneral(change, []int{0}, nil, change, []int{0}, nil), there, suppresses, next}
	})
	return GreaterThan(While(again, round, state...)[3], Scalar(g, dtypes.Float32, 0))
}

// Best returns the indices, [batch, count], of the count highest scores, [batch, n], among those that chosen, [batch, n], marks, in falling order and the
// lower index first among equals. The mask, [batch, count], is false in the places that are left over where fewer are chosen. If n is below count, both
// have n places. No gradient passes.
func Best(scores, chosen *Node, count int) (indices, mask *Node) {
	scores.AssertRank(2)
	chosen.AssertDims(scores.Shape().Dimensions...)
	g := scores.Graph()
	lowest := Infinity(g, scores.DType(), -1)
	values, indices := TopK(Where(chosen, StopGradient(scores), lowest), min(count, scores.Shape().Dim(1)), 1)
	return indices, GreaterThan(values, lowest)
}
