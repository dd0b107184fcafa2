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

	// The Go engine fails where a function's last node has a lower number than a parameter or result, so the condition computes something and the
	// result is the last part of the state.
	state := []*Node{Const(g, false), present, suppresses, present}
	parameters := func(g *Graph) (stable, present, suppresses, keep *Node) {
		p := make([]*Node, len(state))
		for i, node := range state {
			p[i] = Parameter(g, fmt.Sprintf("state%d", i), node.Shape())
		}
		return p[0], p[1], p[2], p[3]
	}
	again := NewClosure(g, func(g *Graph) []*Node {
		stable, _, _, _ := parameters(g)
		return []*Node{LogicalNot(stable)}
	})
	round := NewClosure(g, func(g *Graph) []*Node {
		_, present, suppresses, keep := parameters(g)
		suppressed := ReduceLogicalOr(LogicalAnd(suppresses, InsertAxes(keep, 1)), 2)
		next := LogicalAnd(present, LogicalNot(suppressed))
		return []*Node{LogicalNot(ReduceLogicalOr(LogicalXor(next, keep))), present, suppresses, next}
	})
	return While(again, round, state...)[3]
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
