package optim

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// ClipByGlobalNorm scales all gradients by one factor so that their global norm is at most limit, which is above 0. It also returns the norm
// before clipping, a scalar. If that is NaN or infinite, the clipped gradients are meaningless. As in torch.nn.utils.clip_grad_norm_, the
// factor is limit/(norm + 1e-6), at most 1.
func ClipByGlobalNorm(gradients []*Node, limit float64) (clipped []*Node, norm *Node) {
	norm = GlobalNorm(gradients)
	factor := MinScalar(Div(Scalar(norm.Graph(), norm.DType(), limit), AddScalar(norm, 1e-6)), 1)
	for _, gradient := range gradients {
		clipped = append(clipped, Mul(gradient, ConvertDType(factor, gradient.DType())))
	}
	return clipped, norm
}

// ClipEach scales each gradient so that its own norm is at most limit, which is above 0, by the factor of [ClipByGlobalNorm]. DINO, iBOT and Mugs clip so.
func ClipEach(gradients []*Node, limit float64) (clipped []*Node) {
	for _, gradient := range gradients {
		one, _ := ClipByGlobalNorm([]*Node{gradient}, limit)
		clipped = append(clipped, one...)
	}
	return clipped
}

// GlobalNorm is the Euclidean norm of all gradients as one vector, a scalar.
func GlobalNorm(gradients []*Node) *Node {
	squares := ReduceAllSum(Square(gradients[0]))
	for _, gradient := range gradients[1:] {
		squares = Add(squares, ConvertDType(ReduceAllSum(Square(gradient)), squares.DType()))
	}
	return Sqrt(squares)
}

// Accumulate adds the gradients of one part of a batch to sums under scope, for batches that do not fit into memory.
func Accumulate(scope *model.Scope, variables []*model.Variable, gradients []*Node) {
	for i, variable := range variables {
		gradients[i].AssertDims(variable.Shape().Dimensions...)
		sum := slot(scope, "sum", variable)
		sum.SetNodeValue(Add(sum.NodeValue(gradients[i]), gradients[i]))
	}
}

// Accumulated returns the mean of the gradients that [Accumulate] added over a number of equal parts, at least 1, and resets the sums to 0.
// If the loss is a mean over examples, this is the gradient of the whole batch. Statistics over a batch, such as those of Sinkhorn–Knopp and
// of batch normalisation, remain those of each part.
func Accumulated(scope *model.Scope, g *Graph, variables []*model.Variable, parts int) []*Node {
	var gradients []*Node
	for _, variable := range variables {
		sum := slot(scope, "sum", variable)
		value := sum.NodeValue(g)
		gradients = append(gradients, DivScalar(value, float64(parts)))
		sum.SetNodeValue(ZerosLike(value))
	}
	return gradients
}
