package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// Alignment is the cross-entropy between the target branch's distribution and the online branch's softmax, for images and patches alike ("Cross-view
// alignment"): the mean over rows of −Σ_d targets_d log softmax(logits/temperature)_d.
//
// logits and targets are [.., D], one row per image or patch; rows of targets are distributions, as Sinkhorn–Knopp gives them. temperature is
// positive; the paper does not give it, 0.1 is usual. Differentiable in logits only.
func Alignment(logits, targets *Node, temperature float64) *Node {
	targets.AssertDims(logits.Shape().Dimensions...)
	return Neg(ReduceAllMean(ReduceSum(Mul(StopGradient(targets), LogSoftmax(DivScalar(logits, temperature))), -1)))
}
