package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// outside stands for the logarithm of 0, where −∞ would give NaN.
const outside = -1e30

// SinkhornKnopp turns a teacher's scores into targets: distributions that are sharp one by one and uniform on average (Cuturi 2013; SwAV, DINOv2 and
// DINOv3 use it). An iteration scales columns to equal sums, then rows, starting from exp(scores).
//
// scores are [N, D], already divided by the temperature. mask, [N] of bool, marks the rows that share the columns, as the masked patches do in
// DINOv2's form of iBOT; nil marks all. iterations is at least 1; 3 is usual. The result, [N, D], has rows that sum to 1; those of rows outside the
// mask mean nothing. No gradient passes.
//
// The computation is in the log domain, so that no score overflows and no row or column vanishes.
func SinkhornKnopp(scores, mask *Node, iterations int) *Node {
	scores.AssertRank(2)
	scores = StopGradient(scores)
	rows := ZerosLike(Slice(scores, AxisRange(), AxisElem(0)))
	var columns *Node
	for range iterations {
		shared := Sub(scores, rows)
		if mask != nil {
			shared = Where(mask, shared, AddScalar(ZerosLike(shared), outside))
		}
		columns = logSum(shared, 0)
		rows = logSum(Sub(scores, columns), 1)
	}
	return Exp(Sub(Sub(scores, columns), rows))
}

// logSum is the log-sum-exp along an axis, which is kept with dimension 1.
func logSum(x *Node, axis int) *Node {
	highest := ReduceAndKeep(x, ReduceMax, axis)
	return Add(highest, Log(ReduceAndKeep(Exp(Sub(x, highest)), ReduceSum, axis)))
}
