package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// Lipschitz is how far features are from the constraints of the paper's OP1, ‖z_i − z_j‖ ≤ φ_f ‖x_i − x_j‖ (asm lip_cont): the mean over all N²
// pairs of the squared excess of ½ ‖z_i − z_j‖² over ½ φ_f² ‖x_i − x_j‖², which for features of length r is that of r² − φ_f² ‖x_i − x_j‖²/2 over
// z_iᵀz_j. It is 0 where all constraints are met.
//
// z is [N, D], inputs [N, P], constant is φ_f ≥ 0. Differentiable in z; inputs take no gradient.
func Lipschitz(z, inputs *Node, constant float64) *Node {
	count := z.Shape().Dimensions[0]
	inputs.AssertDims(count, -1)
	excess := Sub(squaredDistances(z), MulScalar(squaredDistances(StopGradient(inputs)), constant*constant))
	return MulScalar(ReduceAllMean(Square(MaxScalar(excess, 0))), 0.25)
}

// squaredDistances are ‖x_i − x_j‖², [N, N].
func squaredDistances(x *Node) *Node {
	x.AssertRank(2)
	count := x.Shape().Dimensions[0]
	squares := ReduceAndKeep(Square(x), ReduceSum, -1)
	squares.AssertDims(count, 1)
	return Sub(Add(squares, Transpose(squares, 0, 1)), MulScalar(MatMul(x, Transpose(x, 0, 1)), 2))
}
