package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// GramAnchoring is DINOv3's Gram anchoring (Siméoni et al. 2025, arXiv 2508.10104, eq. 2; GramLoss in facebookresearch/dinov3): the mean squared
// difference of the cosines between the patches of an image, in the student and in the Gram teacher, an earlier and fixed teacher.
//
// student is [B, N, D] and teacher [B, N, E], patch features of any norm, with the same places in both. Differentiable in student only. The loss is in
// [0, 4]; it does not see the features themselves, so a rotation of the student's is free.
//
// The paper writes the sum over the N² entries; the code takes their mean, and so does this. One matrix over the whole batch, img_level=False in the
// code, is this loss of features of shape [1, B·N, D]. The code can set negative cosines to zero; the authors' recipe (dinov3_vit7b16_gram_anchor.yaml)
// does not, and neither does this. The size of the teacher's images, its schedule and the loss's weight are the caller's.
func GramAnchoring(student, teacher *Node) *Node {
	assertSamePlaces(student, teacher)
	teacher = StopGradient(teacher)
	return ReduceAllMean(Square(Sub(cosines(student, student), cosines(teacher, teacher))))
}

// cosines are those of each patch of x, [B, N, D], with each of y, [B, M, D]: [B, N, M].
func cosines(x, y *Node) *Node {
	unit := func(x *Node) *Node {
		shape := x.Shape()
		return Reshape(Unit(Reshape(x, -1, shape.Dim(-1))), shape.Dimensions...)
	}
	return Einsum("bnd,bmd->bnm", unit(x), unit(y))
}

// assertSamePlaces panics unless student and teacher, [B, N, any], are features of the same number of patches.
func assertSamePlaces(student, teacher *Node) {
	student.AssertRank(3)
	teacher.AssertDims(student.Shape().Dim(0), student.Shape().Dim(1), -1)
}
