package layers

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/samber/lo"
)

// Constants of torch.nn.BatchNorm2d.
const (
	BatchNormEpsilon  = 1e-5
	BatchNormMomentum = 0.1 // Weight of the new batch in the running statistics.
)

// Norm is the mode of batch normalisation. The zero value is inference, which normalises by the running statistics.
type Norm struct {
	// Train normalises by the mean and variance of the batch and updates the running statistics.
	Train bool
	// Groups, if above 1, splits the batch into that many equal runs of consecutive elements and normalises each run by its own statistics in training, as if each
	// were on its own device ("split" or "shuffled" batch normalisation; He et al., MoCo, 2020). 0 and 1 mean the whole batch.
	Groups int
}

// BatchNorm normalises each channel of x, whose batch is on the given axis and whose channels are on the last one, to mean 0 and variance 1. If affine is true, it
// then multiplies by weight and adds bias, both trainable. Constants, names, initial values and running statistics are as in torch.nn.BatchNorm2d: ε = 1e-5,
// momentum 0.1, and the unbiased variance in running_var. With groups, the running statistics are updated by the mean over the groups. In training, BatchNorm
// panics if the batch is not a multiple of the groups or if a group has only one value per channel.
func BatchNorm(scope *model.Scope, x *Node, batchAxis int, norm Norm, affine bool) *Node {
	if x.Rank() != 2 && x.Rank() != 4 {
		exceptions.Panicf("batch normalisation of rank %d, want 2 or 4", x.Rank())
	}
	g, dims := x.Graph(), x.Shape().Dimensions
	channels := dims[len(dims)-1]
	perChannel := shapes.Make(x.DType(), channels)
	variable := func(name string, initial model.VariableInitializer) *model.Variable {
		return scope.WithInitializer(initial).VariableWithShape(name, perChannel)
	}
	weight, bias := Ones(g, perChannel), Zeros(g, perChannel)
	if affine {
		weight, bias = variable("weight", Ones).NodeValue(x), variable("bias", Zeros).NodeValue(x)
	}
	runningMean := variable("running_mean", Zeros).SetTrainable(false)
	runningVar := variable("running_var", Ones).SetTrainable(false)
	if !norm.Train {
		scale := Div(weight, Sqrt(AddScalar(runningVar.NodeValue(x), BatchNormEpsilon)))
		shift := Sub(bias, Mul(scale, runningMean.NodeValue(x)))
		return Add(Mul(x, ExpandLeftToRank(scale, x.Rank())), ExpandLeftToRank(shift, x.Rank()))
	}

	groups := max(norm.Groups, 1)
	if dims[batchAxis]%groups != 0 {
		exceptions.Panicf("a batch of %d cannot be split into %d groups", dims[batchAxis], groups)
	}
	count := x.Shape().Size() / channels / groups
	if count < 2 {
		exceptions.Panicf("batch normalisation of shape %s in %d groups has only one value per channel", x.Shape(), groups)
	}
	y, mean, variance := normalised(Reshape(x, lo.Product(dims[:batchAxis]), groups, -1, channels), weight, bias)

	move := func(running *model.Variable, to *Node) {
		to = StopGradient(Reshape(ReduceMean(to, 1), channels))
		old := running.NodeValue(x)
		running.SetNodeValue(Add(MulScalar(old, 1-BatchNormMomentum), MulScalar(to, BatchNormMomentum)))
	}
	move(runningMean, mean)
	move(runningVar, MulScalar(variance, float64(count)/float64(count-1)))
	return Reshape(y, dims...)
}

// normalised normalises each channel of each group of x, [before, groups, after, channels], to the mean bias and the standard deviation
// weight, both [channels]. It also returns the mean and the biased variance of x, [1, groups, 1, channels].
func normalised(x, weight, bias *Node) (y, mean, variance *Node) {
	mean = ReduceAndKeep(x, ReduceMean, 0, 2)
	// The derivative of the variance by the mean is 0, so no gradient needs to pass there.
	variance = ReduceAndKeep(Square(Sub(x, StopGradient(mean))), ReduceMean, 0, 2)
	scale := Div(ExpandLeftToRank(weight, 4), Sqrt(AddScalar(variance, BatchNormEpsilon)))
	shift := Sub(ExpandLeftToRank(bias, 4), Mul(mean, scale))
	return Add(Mul(x, scale), shift), mean, variance
}

// LayerNorm shifts and scales each vector on the last axis of x to mean 0 and variance 1, multiplies by weight and adds bias.
func LayerNorm(x, weight, bias *Node, epsilon float64) *Node {
	mean := ReduceAndKeep(x, ReduceMean, -1)
	// The derivative of the variance by the mean is 0, so no gradient needs to pass there.
	variance := ReduceAndKeep(Square(Sub(x, StopGradient(mean))), ReduceMean, -1)
	y := Mul(Sub(x, mean), Inverse(Sqrt(AddScalar(variance, epsilon))))
	return Add(Mul(y, ExpandLeftToRank(weight, x.Rank())), ExpandLeftToRank(bias, x.Rank()))
}

// ReLU is max(0, x). Its slope at 0 is 0, as in PyTorch. The order of the arguments decides it: GoMLX gives the slope of equal arguments to the first
// one, so that its own activation has slope 1 at 0. Whole channels can be exactly 0 there, behind another ReLU or after padding.
func ReLU(x *Node) *Node { return Max(ScalarZero(x.Graph(), x.DType()), x) }

// DropChannels sets whole channels of x, [height, width, batch, channels], to 0, each with probability rate and independently for each image, and
// divides the others by 1 − rate, as torch.nn.Dropout2d does in training. The random numbers come from the scope's store. Rate is in [0, 1).
func DropChannels(scope *model.Scope, x *Node, rate float64) *Node {
	x.AssertRank(4)
	if rate == 0 {
		return x
	}
	g := x.Graph()
	random := scope.RandomUniform(g, shapes.Make(dtypes.Float32, 1, 1, x.Shape().Dim(2), x.Shape().Dim(3)))
	kept := ConvertDType(GreaterOrEqual(random, Scalar(g, dtypes.Float32, rate)), x.DType())
	return Mul(x, DivScalar(kept, 1-rate))
}

// GELU is x·Φ(x) with the exact normal distribution function Φ (Hendrycks and Gimpel, 2016), not an approximation.
func GELU(x *Node) *Node { return Mul(x, normalCDF(x)) }

// normalCDF is Φ(x), the distribution function of the standard normal distribution.
func normalCDF(x *Node) *Node { return MulScalar(AddScalar(Erf(MulScalar(x, math.Sqrt2/2)), 1), 0.5) }

// LeanGELU is [GELU], computed in at least float32. Its gradient is written by hand: the backward pass computes Φ again from x, which is all that is kept.
func LeanGELU(x *Node) *Node {
	wide := func(x *Node) *Node { return ConvertDType(x, AtLeastFloat32(x.DType())) }
	y := GELU(wide(x))
	return withGradient(StopGradient(ConvertDType(y, x.DType())), x, func(adjoint *Node) *Node {
		x := wide(OptimizationBarrier(x)) // So that nothing is shared with the forward pass.
		density := MulScalar(Exp(MulScalar(Square(x), -0.5)), 1/math.Sqrt(2*math.Pi))
		return Mul(wide(adjoint), Add(normalCDF(x), Mul(x, density)))
	})
}

// LeanSoftmax is the softmax of x over its last axis. Its gradient is written by hand: the backward pass keeps the result alone.
func LeanSoftmax(x *Node) *Node {
	y := StopGradient(Softmax(x, -1))
	return withGradient(y, x, func(adjoint *Node) *Node {
		return Mul(y, Sub(adjoint, ReduceAndKeep(Mul(adjoint, y), ReduceSum, -1)))
	})
}

// LeanNorm is [LeanNormal], multiplied by weight, with bias added, both in at least float32.
func LeanNorm(x, weight, bias *Node, epsilon float64) *Node {
	y := ConvertDType(LeanNormal(x, epsilon), AtLeastFloat32(x.DType()))
	return ConvertDType(Add(Mul(y, ExpandLeftToRank(weight, x.Rank())), ExpandLeftToRank(bias, x.Rank())), x.DType())
}

// LeanNormal shifts and scales each vector on the last axis of x to mean 0 and variance 1. It is computed in at least float32. Its gradient is written by
// hand: the backward pass keeps x alone.
func LeanNormal(x *Node, epsilon float64) *Node {
	dims, dtype := x.Shape().Dimensions, x.DType()
	x = Reshape(x, -1, dims[len(dims)-1])
	wide := func(x *Node) *Node { return ConvertDType(x, AtLeastFloat32(dtype)) }
	rows := func(x *Node) *Node { return ReduceAndKeep(x, ReduceMean, -1) }
	// normal takes a multiple of x.
	normal := func(x *Node, factor float64) (y, scale *Node) {
		centred := Sub(x, rows(x))
		scale = Inverse(Sqrt(AddScalar(rows(Square(centred)), factor*factor*epsilon)))
		return Mul(centred, scale), MulScalar(scale, factor)
	}
	y, _ := normal(wide(x), 1)
	y = withGradient(StopGradient(ConvertDType(y, dtype)), x, func(adjoint *Node) *Node {
		// Of twice x it is the same to the last bit. A GPU makes one pass over memory of each direction so; of x it would keep means and scales, and
		// read x three times in the forward pass.
		normal, scale := normal(MulScalar(wide(x), 2), 2)
		adjoint = wide(adjoint)
		return Mul(scale, Sub(Sub(adjoint, rows(adjoint)), Mul(normal, rows(Mul(adjoint, normal)))))
	})
	return Reshape(y, dims...)
}

// AtLeastFloat32 is the dtype for operations that half precision is too coarse for: float32 for half types, and dtype itself for others.
func AtLeastFloat32(dtype dtypes.DType) dtypes.DType {
	return lo.Ternary(dtype.IsHalfPrecision(), dtypes.Float32, dtype)
}

// withGradient adds to the gradients that y passes one for x, which has the shape of y. gradient maps the adjoint of the result, in the dtype of x, to the
// adjoint of x.
func withGradient(y, x *Node, gradient func(adjoint *Node) *Node) *Node {
	carrier := IdentityWithCustomGradient(x, func(_, adjoint *Node) *Node { return ConvertDType(gradient(adjoint), x.DType()) })
	return Add(y, ConvertDType(Sub(carrier, StopGradient(x)), y.DType())) // The difference is zero; it carries the gradient.
}
