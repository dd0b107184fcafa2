package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// Correspondence is the patch correspondence map S of two images ("Basic notations"): half the cosine similarity of each patch of one with
// each patch of the other, plus a half.
//
// u, [B, n, D], and v, [B, m, D], hold the patch features of B image pairs, of any length. The result is [B, n·m], the pairs of u's first
// patch first, all in [0, 1]: rounding beyond is cut off. Differentiable in both.
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
