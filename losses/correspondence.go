package losses

import . "github.com/gomlx/gomlx/core/graph"

// Correspondence is the patch correspondence map S of two images ("Basic notations"): (1 + cos)/2 for each patch of one and each patch of the other.
//
// u, [B, n, D], and v, [B, m, D], are the patch features of B image pairs, of any norm. The result is [B, n·m], starting with all pairs of u's first
// patch, clipped to [0, 1]. Differentiable in both.
func Correspondence(u, v *Node) *Node {
	batch, n, dim := u.Shape().Dimensions[0], u.Shape().Dimensions[1], u.Shape().Dimensions[2]
	m := v.Shape().Dimensions[1]
	v.AssertDims(batch, m, dim)
	similarity := cosines(u, v)
	return Reshape(ClipScalar(AddScalar(DivScalar(similarity, 2), 0.5), 0, 1), batch, n*m)
}

// NegativeCosine is SimSiam's distance between a prediction and the projection of the other view (Chen & He 2021, eq. 1 and 3): minus the mean cosine
// similarity, in [−1, 1].
//
// predictions and targets are [B, D]. Differentiable in predictions only: targets take the stop-gradient without which SimSiam collapses.
func NegativeCosine(predictions, targets *Node) *Node {
	targets.AssertDims(predictions.Shape().Dimensions...)
	return Neg(ReduceAllMean(ReduceSum(Mul(Unit(predictions), StopGradient(Unit(targets))), -1)))
}

// unitFloor is the least norm that [Unit] divides by, torch.nn.functional.normalize's epsilon.
const unitFloor = 1e-12

// Unit scales each row of x, [N, D], to Euclidean length 1. A row of zeros stays zero and takes no gradient.
func Unit(x *Node) *Node {
	x.AssertRank(2)
	// The floor is under the root, so that the root has gradient 0 at a zero row, and not 0·∞.
	squares := ReduceAndKeep(Square(x), ReduceSum, -1)
	return Div(x, Sqrt(MaxScalar(squares, unitFloor*unitFloor)))
}

// cosines returns the cosine of each patch of x, [B, N, D], with each patch of y, [B, M, D]: [B, N, M].
func cosines(x, y *Node) *Node {
	unit := func(x *Node) *Node {
		shape := x.Shape()
		return Reshape(Unit(Reshape(x, -1, shape.Dim(-1))), shape.Dimensions...)
	}
	return Einsum("bnd,bmd->bnm", unit(x), unit(y))
}
