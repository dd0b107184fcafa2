package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// Correspondence is the patch correspondence map S of two images ("Basic notations"): (1 + cos)/2 for each patch of one and each patch of the other.
//
// u, [B, n, D], and v, [B, m, D], are the patch features of B image pairs, of any norm. The result is [B, n·m], starting with all pairs of u's first
// patch, clipped to [0, 1]. Differentiable in both.
func Correspondence(u, v *Node) *Node {
	batch, n, dim := u.Shape().Dimensions[0], u.Shape().Dimensions[1], u.Shape().Dimensions[2]
	m := v.Shape().Dimensions[1]
	v.AssertDims(batch, m, dim)
	unit := func(x *Node, patches int) *Node {
		return Reshape(Unit(Reshape(x, batch*patches, dim)), batch, patches, dim)
	}
	similarity := Einsum("bnd,bmd->bnm", unit(u, n), unit(v, m))
	similarity.AssertDims(batch, n, m)
	return Reshape(ClipScalar(AddScalar(DivScalar(similarity, 2), 0.5), 0, 1), batch, n*m)
}
