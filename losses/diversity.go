package losses

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Diversity is L_div of the paper's OP0, ½ ‖C − r²/D·I‖²_F with C = 1/N Σ_i z_i z_iᵀ: 0 where features of length r fill all D dimensions evenly.
//
// z is [N, D], with rows of length radius, which is not enforced here. Differentiable in z.
func Diversity(z *Node, radius float64) *Node {
	z.AssertRank(2)
	count, dim := z.Shape().Dimensions[0], z.Shape().Dimensions[1]
	correlation := DivScalar(MatMul(Transpose(z, 0, 1), z), float64(count))
	correlation.AssertDims(dim, dim)
	square := shapes.Make(z.DType(), dim, dim)
	identity := ConvertDType(Equal(Iota(z.Graph(), square, 0), Iota(z.Graph(), square, 1)), z.DType())
	defect := Sub(correlation, MulScalar(identity, radius*radius/float64(dim)))
	return MulScalar(ReduceAllSum(Square(defect)), 0.5)
}
