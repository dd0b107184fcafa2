// Package losses holds the objectives as pure functions of graph nodes: scores, features or logits go in, a scalar comes out. One loss per file, no
// Scope, no Store.
//
// Every loss is a scalar of its inputs' dtype, a mean over the batch unless its comment says otherwise, and differentiable in the inputs that its
// comment names. Inputs of the wrong rank or of different shapes panic while the graph is built, as in GoMLX's own operations.
//
// CoTAP can be compared with others: [BCE], [FastAP] and [SmoothAP] take the same scores of patch pairs, and [GramAnchoring], [PaKA] and [NeCo] take the
// patch features of a student and a teacher.
//
// The ranking losses also have forms in plain Go and float64, for analysis without a device: [AP], [CoTAPDefinition], [CoTAPBound] and
// [CoTAP.Evaluate]. Those return errors.
//
// A new objective gets a file here, named for it, a float64 reference in the tests and a case in testdata.
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
