package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// Alignment is the cross-entropy of the online branch's softmax with the target branch's distribution, for images and for patches alike
// ("Cross-view alignment"): the mean over rows of −Σ_d targets_d log softmax(logits/temperature)_d.
//
// logits and targets are [.., D], one row an image or a patch; rows of targets are distributions, as Sinkhorn-Knopp makes them. temperature
// is positive; the paper does not give it, 0.1 is usual. Differentiable in logits only.
func Alignment(logits, targets *Node, temperature float64) *Node {
	targets.AssertDims(logits.Shape().Dimensions...)
	return Neg(ReduceAllMean(ReduceSum(Mul(StopGradient(targets), LogSoftmax(DivScalar(logits, temperature))), -1)))
}
