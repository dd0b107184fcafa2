package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// PrototypeEntropy trains object prototypes ("Object prototypes learning"). A softmax turns each prototype's similarities to the images into a
// distribution, whose entropy falls as the prototype approaches its nearest image. The loss is the sum of the entropies over M·n, and so in [0,
// ln(n)/n].
//
// prototypes are [M, F] and features [n, F]: flattened K_s×K_s maps of any norm. temperature is τ3 > 0, the paper's 0.1. Differentiable in prototypes
// only: features come from the target branch.
func PrototypeEntropy(prototypes, features *Node, temperature float64) *Node {
	similarity := MatMul(Unit(prototypes), Transpose(StopGradient(Unit(features)), 0, 1))
	similarity.AssertDims(prototypes.Shape().Dimensions[0], features.Shape().Dimensions[0])
	log := LogSoftmax(DivScalar(similarity, temperature))
	return Neg(ReduceAllMean(Mul(Exp(log), log)))
}
