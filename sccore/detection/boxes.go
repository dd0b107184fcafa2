package detection

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph" //nolint
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
// logarithm of the growth of the sides, each divided by a deviation. It is torchvision's BoxCoder with weights 1/Deviations, mmdetection's
// DeltaXYWHBBoxCoder with means 0 and detectron2's Box2BoxTransform.
type Coder struct {
	// Deviations are the standard deviations of x, y, width and height, by which codes are divided.
	Deviations [4]float64
}

// centred returns the centres and the lengths of the sides of boxes, [..., 4].
func centred(boxes *Node) (x, y, width, height *Node) {
	x1, y1, x2, y2 := sides(boxes)
	width, height = Sub(x2, x1), Sub(y2, y1)
	return Add(x1, MulScalar(width, 0.5)), Add(y1, MulScalar(height, 0.5)), width, height
}

// Encode returns the codes of boxes relative to references, both [..., 4]. Sides count as at least 1e-6 pixels, so that the codes of boxes without area,
// as those of padding, are finite.
func (c Coder) Encode(references, boxes *Node) *Node {
	rx, ry, rw, rh := centred(references)
	x, y, w, h := centred(boxes)
	floor := func(side *Node) *Node { return MaxScalar(side, smallest) }
	rw, rh = floor(rw), floor(rh)
	codes := []*Node{Div(Sub(x, rx), rw), Div(Sub(y, ry), rh), Log(Div(floor(w), rw)), Log(Div(floor(h), rh))}
	for i, code := range codes {
		codes[i] = DivScalar(code, c.Deviations[i])
	}
	return Stack(codes, -1)
}

// Decode returns the boxes whose codes relative to references, [..., 4], are codes, [..., 4]. A side grows at most by the factor 1000/16.
func (c Coder) Decode(references, codes *Node) *Node {
	rx, ry, rw, rh := centred(references)
	dx, dy, dw, dh := sides(codes)
	x := Add(rx, Mul(rw, MulScalar(dx, c.Deviations[0])))
	y := Add(ry, Mul(rh, MulScalar(dy, c.Deviations[1])))
	w := MulScalar(Mul(rw, Exp(MinScalar(MulScalar(dw, c.Deviations[2]), largestGrowth))), 0.5)
	h := MulScalar(Mul(rh, Exp(MinScalar(MulScalar(dh, c.Deviations[3]), largestGrowth))), 0.5)
	return Stack([]*Node{Sub(x, w), Sub(y, h), Add(x, w), Add(y, h)}, -1)
}
