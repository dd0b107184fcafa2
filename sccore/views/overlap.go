package views

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// Overlap returns the part of the image that two views both see, in each view's own coordinates: two boxes [n, 4], top, left, height and
// width as shares of the view, where a mirrored view's left is the side that it shows left. Rows of first and second, parameters
// [n, NumParams] each, are pairs of views of one image. Views that share nothing have boxes of height or width 0.
//
// RoI-Align takes these boxes, and [Boxes] has the flips that it undoes.
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
