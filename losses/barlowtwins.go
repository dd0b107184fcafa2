package losses

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// barlowVarianceFloor keeps the standardisation finite for a feature that is constant over the batch. It is BatchNorm's epsilon, as in the authors'
// implementation.
const barlowVarianceFloor = 1e-5

// BarlowTwins pulls the cross-correlation matrix of two views' features towards the identity (Zbontar et al. 2021, eq. 1–2):
//
//	Σ_i (1 − C_ii)² + λ Σ_i Σ_{j≠i} C_ij²
//
// z1 and z2, [B, D] with B ≥ 2, are standardised over the batch (biased variance); λ = offDiagonal ≥ 0, the authors' 0.005. It is a sum over the D²
// entries, not a mean. Differentiable in both.
func BarlowTwins(z1, z2 *Node, offDiagonal float64) *Node {
	g := z1.Graph()
	z2.AssertDims(z1.Shape().Dimensions...)
	batch, dim := z1.Shape().Dimensions[0], z1.Shape().Dimensions[1]

	correlation := MatMul(Transpose(standardize(z1), 0, 1), standardize(z2))
	correlation.AssertDims(dim, dim)
	correlation = DivScalar(correlation, float64(batch))

	square := shapes.Make(z1.DType(), dim, dim)
	identity := ConvertDType(Equal(Iota(g, square, 0), Iota(g, square, 1)), z1.DType())
	weight := Add(identity, MulScalar(OneMinus(identity), offDiagonal))
	return ReduceAllSum(Mul(weight, Square(Sub(correlation, identity))))
}

// standardize gives each column of x, [B, D], mean 0 and variance 1 over the batch.
func standardize(x *Node) *Node {
	x = Sub(x, ReduceAndKeep(x, ReduceMean, 0))
	variance := ReduceAndKeep(Square(x), ReduceMean, 0)
	return Div(x, Sqrt(AddScalar(variance, barlowVarianceFloor)))
}
