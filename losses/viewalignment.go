package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// ViewAlignment is L_align of the paper's OP0, 1/(2N²) Σ_ij ŵ_ij ‖z_i − z_j‖², where ŵ_ij = 1 for two views of one image.
//
// z, [N, D], holds the views image by image, the given number of them each; N must be a multiple of it. Unlike other losses it is what the paper's
// sum makes it: m/(2N) times the mean of ‖z_i − z_j‖² over the pairs with ŵ_ij = 1, with m the number of views. Differentiable in z.
func ViewAlignment(z *Node, views int) *Node {
	z.AssertRank(2)
	count, dim := z.Shape().Dimensions[0], z.Shape().Dimensions[1]
	grouped := Reshape(z, -1, views, dim)
	grouped.AssertDims(-1, views, dim)
	// Σ_jl ‖z_j − z_l‖² = 2m Σ_j ‖z_j − z̄‖²
	spread := ReduceAllSum(Square(Sub(grouped, ReduceAndKeep(grouped, ReduceMean, 1))))
	return MulScalar(spread, float64(views)/float64(count*count))
}
