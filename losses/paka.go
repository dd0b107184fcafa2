package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// pakaFloor keeps the gradient finite for an image whose patches all have one feature. It is the floor of lightly's implementation.
const pakaFloor = 1e-6

// PaKA is the patch-level kernel alignment loss (Yeo, Jang and Kim 2025, arXiv 2509.05606; PatchKernelAlignmentLoss in lightly-ai/lightly, which
// lightly-train's dinov31 uses): the mean over images of 1 − CKA, with the centred kernel alignment of the patches' linear kernels
//
//	CKA = ⟨HK_sH, HK_tH⟩ / (‖HK_sH‖ ‖HK_tH‖),   K_s = Z_s Z_sᵀ,   K_t = Z_t Z_tᵀ,   H = I − 11ᵀ/N
//
// student, Z_s, is [B, N, D] and teacher, Z_t, is [B, N, E], with the same places in both. Differentiable in student only. The loss is in [0, 1]. It
// does not change with a rotation, a translation or a positive factor of an image's features; the norms of the patches count, as in lightly's code.
//
// Squared norms of centred kernels are at least 10⁻⁶, lightly's floor: an image whose patches all have one feature has loss 1 and no gradient. lightly
// also masks patches and draws 512 of them; here, all patches count. The head before the loss, crops that overlap by much and the teacher without
// augmentation are the method's, not the loss's.
func PaKA(student, teacher *Node) *Node {
	assertSamePlaces(student, teacher)
	s, t := centeredKernel(student), centeredKernel(StopGradient(teacher))
	sum := func(x *Node) *Node { return ReduceSum(x, -1, -2) }
	norm := func(k *Node) *Node { return Sqrt(MaxScalar(sum(Square(k)), pakaFloor)) }
	return ReduceAllMean(OneMinus(Div(sum(Mul(s, t)), Mul(norm(s), norm(t)))))
}

// centeredKernel is HZZᵀH of each image's patches z, [B, N, D]: [B, N, N]. It is the kernel of the centred features, which loses fewer digits than
// centring the kernel.
func centeredKernel(z *Node) *Node {
	centered := Sub(z, ReduceAndKeep(z, ReduceMean, 1))
	return Einsum("bnd,bmd->bnm", centered, centered)
}
