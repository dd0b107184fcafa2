package losses

import . "github.com/gomlx/gomlx/core/graph"

// GramAnchoring is DINOv3's Gram anchoring (Siméoni et al. 2025, arXiv 2508.10104, eq. 2; GramLoss in facebookresearch/dinov3): the mean squared
// difference of the cosines between the patches of an image, in the student and in the Gram teacher, an earlier and fixed teacher.
//
// student is [B, N, D] and teacher [B, N, E], patch features of any norm, with the same places in both. Differentiable in student only. The loss is in [0,
// 4]; it does not see the features themselves, so rotating the student's features does not change it.
//
// The paper writes the sum over the N² entries; the code takes their mean, and so does this. One matrix over the whole batch, img_level=False in the
// code, is this loss of features of shape [1, B·N, D]. The code can set negative cosines to zero; the authors' recipe (dinov3_vit7b16_gram_anchor.yaml)
// does not, and neither does this. The size of the teacher's images, its schedule and the loss's weight are the caller's.
func GramAnchoring(student, teacher *Node) *Node {
	assertSamePlaces(student, teacher)
	teacher = StopGradient(teacher)
	return ReduceAllMean(Square(Sub(cosines(student, student), cosines(teacher, teacher))))
}

// assertSamePlaces panics unless student and teacher, [B, N, any], are features of the same number of patches.
func assertSamePlaces(student, teacher *Node) {
	student.AssertRank(3)
	teacher.AssertDims(student.Shape().Dim(0), student.Shape().Dim(1), -1)
}

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
// Squared norms of centred kernels are at least 10⁻⁶, lightly's floor: an image whose patches all have one feature has loss 1 and no gradient. lightly also
// masks patches and draws 512 of them; here, all patches count. The head before the loss, crops that overlap a lot and the teacher without augmentation
// belong to the method, not to the loss.
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
