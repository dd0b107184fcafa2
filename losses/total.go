package losses

import . "github.com/gomlx/gomlx/core/graph"

// Lambdas are the weights of the terms: λ1, λ̄1, λ2, λ̄2 of the total loss and λ3, which it leaves out (erratum E3).
type Lambdas struct {
	PatchAlignment     float64 `json:"patch_alignment" range:"[0,1e6]"`     // Weight λ1 of patch alignment.
	ImageAlignment     float64 `json:"image_alignment" range:"[0,1e6]"`     // Weight λ̄1 of image alignment.
	PatchConcentration float64 `json:"patch_concentration" range:"[0,1e6]"` // Weight λ2 of patch concentration.
	ImageConcentration float64 `json:"image_concentration" range:"[0,1e6]"` // Weight λ̄2 of alignment with a neighbour.
	Prototypes         float64 `json:"prototypes" range:"[0,1e6]"`          // Weight λ3 of the entropy of the filter's prototypes.
}

// DefaultLambdas are all 1 ("Optimization strategy").
func DefaultLambdas() Lambdas { return Lambdas{1, 1, 1, 1, 1} }

// Alignment is the cross-entropy between the target branch's distribution and the online branch's softmax, for images and patches alike ("Cross-view
// alignment"): the mean over rows of −Σ_d targets_d log softmax(logits/temperature)_d.
//
// logits and targets are [.., D], one row per image or patch; rows of targets are distributions, as Sinkhorn–Knopp gives them. temperature is
// positive; the paper does not give it, 0.1 is usual. Differentiable in logits only.
func Alignment(logits, targets *Node, temperature float64) *Node {
	targets.AssertDims(logits.Shape().Dimensions...)
	return Neg(ReduceAllMean(ReduceSum(Mul(StopGradient(targets), LogSoftmax(DivScalar(logits, temperature))), -1)))
}

// PrototypeEntropy trains object prototypes ("Object prototypes learning"). A softmax turns each prototype's similarities to the images into a distribution,
// whose entropy falls as the prototype approaches its nearest image. The loss is the sum of the entropies over M·n, and so in [0, ln(n)/n].
//
// prototypes are [M, F] and features [n, F]: flattened K_s×K_s maps of any norm. temperature is τ3 > 0, the paper's 0.1. Differentiable in prototypes
// only: features come from the target branch.
func PrototypeEntropy(prototypes, features *Node, temperature float64) *Node {
	similarity := MatMul(Unit(prototypes), Transpose(StopGradient(Unit(features)), 0, 1))
	log := LogSoftmax(DivScalar(similarity, temperature))
	return Neg(ReduceAllMean(Mul(Exp(log), log)))
}
