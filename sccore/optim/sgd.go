// Package optim holds the optimizers that GoMLX lacks, as updates of explicit variables inside a training-step graph.
//
// Rates and other scheduled numbers enter as graph nodes, so that one compiled step serves every schedule.
package optim

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// SGD is stochastic gradient descent with heavy-ball momentum and L2 decay, as torch.optim.SGD (dampening 0, no Nesterov):
//
//	v ← Momentum·v + gradient + WeightDecay·w
//	w ← w − rate·v
//
// The velocity v of a variable starts at 0 and lives under the scope given to Update, at the variable's own path.
type SGD struct {
	// Momentum in [0, 1).
	Momentum float64
	// WeightDecay ≥ 0 acts on every variable, biases and norms included, as in the recipes of the augmentation study.
	WeightDecay float64
}

// Update sets the next value of each variable from its gradient and rate, a float32 scalar ≥ 0. It panics on a gradient whose shape is
// not its variable's.
func (o SGD) Update(scope *model.Scope, variables []*model.Variable, gradients []*Node, rate *Node) {
	for i, variable := range variables {
		gradient := gradients[i]
		gradient.AssertDims(variable.Shape().Dimensions...)
		value := variable.NodeValue(gradient)
		velocity := slot(scope, "velocity", variable)
		v := Add(MulScalar(velocity.NodeValue(gradient), o.Momentum), Add(gradient, MulScalar(value, o.WeightDecay)))
		velocity.SetNodeValue(v)
		variable.SetNodeValue(Sub(value, Mul(ConvertDType(rate, v.DType()), v)))
	}
}
