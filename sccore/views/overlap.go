package views

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// Overlap returns the region that two views of one image share, in the coordinates of each view: two boxes [n, 4] with top, left, height and
// width as shares of the view. For a mirrored view, left is the left edge of the view as mirrored. The rows of first and second,
// parameters [n, NumParams] each, are pairs of views of one image. The boxes of disjoint views have height or width 0.
//
// RoI-Align takes these boxes, and undoes the flips that [Boxes] returns.
func Overlap(first, second *Node) (inFirst, inSecond *Node) {
	second.AssertDims(first.Shape().Dim(0), NumParams)
	side := func(params *Node, at int) *Node { return Slice(params, AxisRange(), AxisElem(boxAt+at)) }
	end := func(params *Node, at int) *Node { return Add(side(params, at), side(params, at+2)) }

	var starts, lengths [2]*Node // Along the height and the width, in pixels of the image.
	for axis := range 2 {
		starts[axis] = Max(side(first, axis), side(second, axis))
		lengths[axis] = MaxScalar(Sub(Min(end(first, axis), end(second, axis)), starts[axis]), 0)
	}
	within := func(params *Node) *Node {
		share := func(pixels *Node, axis int) *Node { return Div(pixels, side(params, axis+2)) }
		height, width := share(lengths[0], 0), share(lengths[1], 1)
		top := share(Sub(starts[0], side(params, 0)), 0)
		left := share(Sub(starts[1], side(params, 1)), 1)
		flip := Slice(params, AxisRange(), AxisElem(flipAt))
		left = Where(GreaterThan(flip, ZerosLike(flip)), Sub(OneMinus(left), width), left)
		box := Concatenate([]*Node{top, left, height, width}, 1)
		box.AssertDims(-1, 4)
		return StopGradient(box)
	}
	return within(first), within(second)
}
