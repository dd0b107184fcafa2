package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// IBOTPatches is the masked patch loss of iBOT (Zhou et al. 2022, eq. 2): the student guesses the teacher's distribution of each patch that is hidden
// from it.
//
// student holds logits of the patches of G masked views of B images, [G, B, N, K]; targets are the teacher's distributions of the same views without
// masks, of the same shape: [DINOTargets] with a centre of their own, which [DINOCenter] moves, or [SinkhornKnopp] of the masked patches, as in DINOv2.
// masks, [G, B, N] of bool, marks the hidden patches, as views.BlockMask draws them. The loss is the mean over the views and images of the mean over a
// view's masked patches of −Σ_k targets_k log softmax(student/temperature)_k. A view without masked patches counts as 0. temperature is the student's,
// iBOT's 0.1. Differentiable in student only.
//
// iBOT's loss of the [CLS] tokens is [DINO], where the student's first G views are masked too; the two are added with weights of 1.
func IBOTPatches(student, targets, masks *Node, temperature float64) *Node {
	targets.AssertDims(student.Shape().Dimensions...)
	masks.AssertDims(student.Shape().Dimensions[:3]...)
	entropies := Neg(ReduceSum(Mul(StopGradient(targets), LogSoftmax(DivScalar(student, temperature))), -1))
	hidden := ConvertDType(masks, student.DType())
	return ReduceAllMean(Div(ReduceSum(Mul(entropies, hidden), -1), MaxScalar(ReduceSum(hidden, -1), 1)))
}
