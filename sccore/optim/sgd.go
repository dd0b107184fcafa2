package optim

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// SGD is stochastic gradient descent with heavy-ball momentum and L2 decay, as torch.optim.SGD (dampening 0, no Nesterov):
//
//	v ← Momentum·v + gradient + WeightDecay·w
//	w ← w − learningRate·v
//
// The velocity v of a variable starts at 0 and lives under the scope given to Update, at the variable's own path.
type SGD struct {
	// Momentum is in [0, 1).
	Momentum float64
	// WeightDecay ≥ 0 acts on every variable, including biases and norms, as in the recipes of the augmentation study.
	WeightDecay float64
}

// Update sets the next value of each variable from its gradient. learningRate is a float32 scalar ≥ 0. Update panics if a gradient and its
// variable have different shapes.
func (o SGD) Update(scope *model.Scope, variables []*model.Variable, gradients []*Node, learningRate *Node) {
	for i, variable := range variables {
		gradient := gradients[i]
		gradient.AssertDims(variable.Shape().Dimensions...)
		value := variable.NodeValue(gradient)
		velocity := slot(scope, "velocity", variable)
		v := Add(MulScalar(velocity.NodeValue(gradient), o.Momentum), Add(gradient, MulScalar(value, o.WeightDecay)))
		velocity.SetNodeValue(v)
		variable.SetNodeValue(Sub(value, Mul(ConvertDType(learningRate, v.DType()), v)))
	}
}
