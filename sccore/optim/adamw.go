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
//	w ← (1 − rate·decay)·w
//	m ← Beta1·m + (1 − Beta1)·gradient
//	v ← Beta2·v + (1 − Beta2)·gradient²
//	w ← w − rate · m/(1 − Beta1ᵗ) / (√(v/(1 − Beta2ᵗ)) + Epsilon)
//
// at its t-th step. Rate and decay enter with each step, as the paper schedules both; biases and norms do not decay, see [Decays]. The
// moments m and v of a variable, and the count t of all steps, start at 0 and live under the scope given to Update.
type AdamW struct {
	Beta1, Beta2 float64 // In [0, 1).
	Epsilon      float64 // Above 0.
}

// DefaultAdamW returns PyTorch's defaults, 0.9, 0.999 and 1e-8: the paper names none.
func DefaultAdamW() AdamW { return AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8} }

// Update sets the next value of each variable from its gradient, rate and decay, both float32 scalars ≥ 0. It panics on a gradient whose
// shape is not its variable's.
func (o AdamW) Update(scope *model.Scope, variables []*model.Variable, gradients []*Node, rate, decay *Node) {
	counter := scope.Store().VariableWithShape(model.JoinPath(scope.Scope(), "step"), shapes.Make(dtypes.Int64), Zeros).SetTrainable(false)
	step := AddScalar(counter.NodeValue(rate), 1)
	counter.SetNodeValue(step)
	// Float32 holds 1 − 0.999 to five digits only.
	step = ConvertDType(step, dtypes.Float64)
	correction := func(beta float64) *Node { return OneMinus(Pow(Const(rate.Graph(), beta), step)) }
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

		rate := ConvertDType(rate, dtype)
		value := variable.NodeValue(gradient)
		if Decays(variable) {
			value = Mul(value, OneMinus(Mul(rate, ConvertDType(decay, dtype))))
		}
		size := AddScalar(Sqrt(Div(v, ConvertDType(correction2, dtype))), o.Epsilon)
		variable.SetNodeValue(Sub(value, Mul(rate, Div(Div(m, ConvertDType(correction1, dtype)), size))))
	}
}

// Decays tells whether weight decay acts on a variable: not on biases and on the scales and shifts of norms, by DINO's rule, which is all
// that is named "bias" and all vectors.
func Decays(variable *model.Variable) bool {
	return variable.Shape().Rank() > 1 && !strings.HasSuffix(variable.Path(), "bias")
}

// slot is what an optimizer keeps about a variable: a variable of the same shape, 0 at first.
func slot(scope *model.Scope, name string, variable *model.Variable) *model.Variable {
	path := model.JoinPath(scope.Scope(), name, variable.Path())
	return scope.Store().VariableWithShape(path, variable.Shape(), Zeros).SetTrainable(false)
}
