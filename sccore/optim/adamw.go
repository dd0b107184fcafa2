package optim

import (
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter 2019), as torch.optim.AdamW:
//
//	w ← (1 − learningRate·weightDecay)·w
//	m ← Beta1·m + (1 − Beta1)·gradient
//	v ← Beta2·v + (1 − Beta2)·gradient²
//	w ← w − learningRate · m/(1 − Beta1ᵗ) / (√(v/(1 − Beta2ᵗ)) + Epsilon)
//
// at its t-th step. The learning rate and the weight decay are arguments of each step, because the paper schedules both. Biases and norms do
// not decay; see [Decays]. The moments m and v of a variable, and the step count t, start at 0 and live under the scope given to Update.
type AdamW struct {
	Beta1, Beta2 float64 // In [0, 1).
	Epsilon      float64 // Above 0.
}

// DefaultAdamW returns PyTorch's defaults, 0.9, 0.999 and 1e-8. The paper gives none.
func DefaultAdamW() AdamW { return AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8} }

// Update sets the next value of each variable from its gradient. learningRate and weightDecay are float32 scalars ≥ 0. Update panics if a
// gradient and its variable have different shapes.
func (o AdamW) Update(scope *model.Scope, variables []*model.Variable, gradients []*Node, learningRate, weightDecay *Node) {
	o.update(scope, variables, gradients, learningRate, weightDecay, func(old, next *Node) *Node { return next })
}

// UpdateUnless is [AdamW.Update] in steps where frozen, a scalar of bool, is false. In the others it leaves the variables, their moments and the step
// count as they are, as PyTorch does for parameters without a gradient. DINO freezes its head's last layer so, in the first epoch.
func (o AdamW) UpdateUnless(frozen *Node, scope *model.Scope, variables []*model.Variable, gradients []*Node, learningRate, weightDecay *Node) {
	o.update(scope, variables, gradients, learningRate, weightDecay, func(old, next *Node) *Node { return Where(frozen, old, next) })
}

// update sets each variable, and what it keeps for it, to what choose returns of the old and the next value.
func (o AdamW) update(scope *model.Scope, variables []*model.Variable, gradients []*Node, learningRate, weightDecay *Node, choose func(old, next *Node) *Node) {
	counter := scope.Store().VariableWithShape(model.JoinPath(scope.Scope(), "step"), shapes.Make(dtypes.Int64), Zeros).SetTrainable(false)
	before := counter.NodeValue(learningRate)
	step := AddScalar(before, 1)
	counter.SetNodeValue(choose(before, step))
	// Float32 holds 1 − 0.999 to only five digits.
	step = ConvertDType(step, dtypes.Float64)
	correction := func(beta float64) *Node { return OneMinus(Pow(Const(learningRate.Graph(), beta), step)) }
	correction1, correction2 := correction(o.Beta1), correction(o.Beta2)

	for i, variable := range variables {
		gradient := gradients[i]
		gradient.AssertDims(variable.Shape().Dimensions...)
		dtype := gradient.DType()
		mean, square := slot(scope, "mean", variable), slot(scope, "square", variable)
		oldMean, oldSquare, old := mean.NodeValue(gradient), square.NodeValue(gradient), variable.NodeValue(gradient)
		m := Add(MulScalar(oldMean, o.Beta1), MulScalar(gradient, 1-o.Beta1))
		v := Add(MulScalar(oldSquare, o.Beta2), MulScalar(Square(gradient), 1-o.Beta2))
		mean.SetNodeValue(choose(oldMean, m))
		square.SetNodeValue(choose(oldSquare, v))

		rate := ConvertDType(learningRate, dtype)
		value := old
		if Decays(variable) {
			value = Mul(value, OneMinus(Mul(rate, ConvertDType(weightDecay, dtype))))
		}
		size := AddScalar(Sqrt(Div(v, ConvertDType(correction2, dtype))), o.Epsilon)
		variable.SetNodeValue(choose(old, Sub(value, Mul(rate, Div(Div(m, ConvertDType(correction1, dtype)), size)))))
	}
}

// Decays reports whether weight decay acts on a variable. By DINO's rule it does not act on variables named "bias" and on vectors, such as
// the scales and shifts of norms.
func Decays(variable *model.Variable) bool {
	return variable.Shape().Rank() > 1 && !strings.HasSuffix(variable.Path(), "bias")
}

// slot returns the state that an optimizer keeps for a variable: a variable of the same shape that starts at 0.
func slot(scope *model.Scope, name string, variable *model.Variable) *model.Variable {
	path := model.JoinPath(scope.Scope(), name, variable.Path())
	return scope.Store().VariableWithShape(path, variable.Shape(), Zeros).SetTrainable(false)
}
