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
	counter := scope.Store().VariableWithShape(model.JoinPath(scope.Scope(), "step"), shapes.Make(dtypes.Int64), Zeros).SetTrainable(false)
	step := AddScalar(counter.NodeValue(learningRate), 1)
	counter.SetNodeValue(step)
	// Float32 holds 1 − 0.999 to only five digits.
	step = ConvertDType(step, dtypes.Float64)
	correction := func(beta float64) *Node { return OneMinus(Pow(Const(learningRate.Graph(), beta), step)) }
	correction1, correction2 := correction(o.Beta1), correction(o.Beta2)

	for i, variable := range variables {
		gradient := gradients[i]
		gradient.AssertDims(variable.Shape().Dimensions...)
		dtype := gradient.DType()
		mean, square := slot(scope, "mean", variable), slot(scope, "square", variable)
		m := Add(MulScalar(mean.NodeValue(gradient), o.Beta1), MulScalar(gradient, 1-o.Beta1))
		v := Add(MulScalar(square.NodeValue(gradient), o.Beta2), MulScalar(Square(gradient), 1-o.Beta2))
		mean.SetNodeValue(m)
		square.SetNodeValue(v)

		rate := ConvertDType(learningRate, dtype)
		value := variable.NodeValue(gradient)
		if Decays(variable) {
			value = Mul(value, OneMinus(Mul(rate, ConvertDType(weightDecay, dtype))))
		}
		size := AddScalar(Sqrt(Div(v, ConvertDType(correction2, dtype))), o.Epsilon)
		variable.SetNodeValue(Sub(value, Mul(rate, Div(Div(m, ConvertDType(correction1, dtype)), size))))
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
