// Package optim holds optimizers and schedules that GoMLX lacks. Optimizers update explicit variables inside the graph of a training step.
// Learning rates and other scheduled numbers are graph nodes, so that one compiled step serves every schedule.
//
// Add an optimizer as a file of its own, with a golden file in testdata that compares it with PyTorch.
package optim

import (
	"math"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
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
	// Frozen is a scalar of bool or nil. Steps in which it is true leave the variables, their moments and the step count as they are, as PyTorch does for parameters
	// without a gradient. DINO freezes its head's last layer so, in the first epoch.
	Frozen *Node
}

// DefaultAdamW returns PyTorch's defaults, 0.9, 0.999 and 1e-8. The paper gives none.
func DefaultAdamW() AdamW { return AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8} }

// Update sets the next value of each variable from its gradient. learningRate and weightDecay are float32 scalars ≥ 0. Update panics if a
// gradient and its variable have different shapes.
func (o AdamW) Update(scope *model.Scope, variables []*model.Variable, gradients []*Node, learningRate, weightDecay *Node) {
	choose := func(old, next *Node) *Node {
		if o.Frozen == nil {
			return next
		}
		return Where(o.Frozen, old, next)
	}
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

// ClipByGlobalNorm scales all gradients by one factor so that their global norm is at most limit, which is above 0. It also returns the norm
// before clipping, a scalar. If that is NaN or infinite, the clipped gradients are meaningless. As in torch.nn.utils.clip_grad_norm_, the
// factor is limit/(norm + 1e-6), at most 1.
func ClipByGlobalNorm(gradients []*Node, limit float64) (clipped []*Node, norm *Node) {
	norm = GlobalNorm(gradients)
	factor := MinScalar(Div(Scalar(norm.Graph(), norm.DType(), limit), AddScalar(norm, 1e-6)), 1)
	return lo.Map(gradients, func(gradient *Node, _ int) *Node { return Mul(gradient, ConvertDType(factor, gradient.DType())) }), norm
}

// ClipEach scales each gradient so that its own norm is at most limit, which is above 0, by the factor of [ClipByGlobalNorm]. DINO, iBOT and Mugs clip so.
func ClipEach(gradients []*Node, limit float64) []*Node {
	return lo.Map(gradients, func(gradient *Node, _ int) *Node {
		clipped, _ := ClipByGlobalNorm([]*Node{gradient}, limit)
		return clipped[0]
	})
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

// Accumulated returns the mean of the gradients that [Accumulate] added over a number of equal parts, at least 1, and resets the sums to 0. If the loss is a
// mean over examples, this is the gradient of the whole batch. Statistics over a batch, as in Sinkhorn–Knopp and batch normalisation, remain statistics over
// each part.
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

// Cosine is a cosine schedule with linear warm-up. It rises linearly from peak/warmup at step 0 to peak at step warmup − 1, and then follows half a cosine, down or up, from
// peak to final at step total, as torch.optim.lr_scheduler.CosineAnnealingLR does. 0 ≤ warmup < total. After step total it stays at final.
//
// The paper's method uses it without warm-up for the learning rate, 3e-5 to 1e-6, for weight decay, 0.024 to 0.24, and for the momentum of
// the target branch, 0.9997 to 1 ("Optimization strategy").
func Cosine(step, total, warmup int, peak, final float64) float64 {
	if step < warmup {
		return peak * float64(step+1) / float64(warmup)
	}
	progress := min(float64(step-warmup)/float64(total-warmup), 1)
	return final + (peak-final)*(1+math.Cos(math.Pi*progress))/2
}

// Poly falls from peak at step 0 to 0 at step total, as peak·(1 − step/total)^power. It is the schedule of mmsegmentation's recipes.
func Poly(step, total int, peak, power float64) float64 {
	return peak * math.Pow(max(0, 1-float64(step)/float64(total)), power)
}

// Milestones multiplies peak by factor at each of the milestones that step has reached. It is the schedule of mmdetection's and detectron2's recipes.
func Milestones(step int, peak, factor float64, milestones ...int) float64 {
	rate := peak
	for _, milestone := range milestones {
		if step >= milestone {
			rate *= factor
		}
	}
	return rate
}

// WarmUp scales the rate of a step before step warmup: linearly from the share ratio at step 0 to 1 at step warmup, as mmcv's linear warm-up does.
func WarmUp(step, warmup int, ratio, rate float64) float64 {
	return lo.Ternary(step >= warmup, rate, rate*(1-(1-float64(step)/float64(warmup))*(1-ratio)))
}
