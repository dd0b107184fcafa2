package detection

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

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

	// Masks are numbers inside the loop, and sums are products, because go-xla cannot reduce by one operation in two functions; zeros are
	// differences, because GoMLX shares scalars between functions, which it then refuses. The condition computes
	// something and the result is the last part of the state, because the Go engine fails where the last node of a function has a lower number than a
	// parameter or result.
	there := ConvertDType(present, dtypes.Float32)
	state := []*Node{Scalar(g, dtypes.Float32, 1), there, ConvertDType(suppresses, dtypes.Float32), there}
	parameters := func(g *Graph) (changes, there, suppresses, keep *Node) {
		p := make([]*Node, len(state))
		for i, node := range state {
			p[i] = Parameter(g, fmt.Sprintf("state%d", i), node.Shape())
		}
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
