package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// classificationLoss is the mean cross-entropy of logits, [N, C], with the classes that positive marks, a {0, 1} mask of the same shape with one 1
// per row.
func classificationLoss(logits, positive *Node) *Node {
	return ReduceAllMean(Neg(ReduceSum(Mul(LogSoftmax(logits), positive), -1)))
}
