package losses

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// NTXent is SimCLR's normalised temperature-scaled cross-entropy (Chen et al. 2020, eq. 1).
//
// z1 and z2, [B, D], are the projections of two views of the same B images, of any norm. Each of the 2B projections must identify its other view
// among the 2B − 1 others by cosine similarity over temperature (> 0). The loss is at least 0, and ln(2B − 1) if all projections coincide.
// Differentiable in both.
func NTXent(z1, z2 *Node, temperature float64) *Node {
	g := z1.Graph()
	z2.AssertDims(z1.Shape().Dimensions...)
	batch := z1.Shape().Dimensions[0]
	n := 2 * batch

	z := Unit(Concatenate([]*Node{z1, z2}, 0))
	z.AssertDims(n, -1)
	logits := DivScalar(MatMul(z, Transpose(z, 0, 1)), temperature)
	logits.AssertDims(n, n)

	square := shapes.Make(logits.DType(), n, n)
	row, column := Iota(g, square, 0), Iota(g, square, 1)
	self := Equal(row, column)
	logits = Where(self, AddScalar(MulScalar(logits, 0), -1e9), logits)
	other := Equal(Abs(Sub(row, column)), Scalar(g, logits.DType(), float64(batch)))
	return classificationLoss(logits, ConvertDType(other, logits.DType()))
}
