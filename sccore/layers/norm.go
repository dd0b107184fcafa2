package layers

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

const (
	batchNormEpsilon  = 1e-5
	batchNormMomentum = 0.1 // Weight of the new batch in the running statistics.
)

// Norm says how batch normalisation treats a batch. Its zero value is inference: normalise by the running statistics.
type Norm struct {
	// Train normalises by the batch's own mean and variance, and moves the running ones towards them.
	Train bool
	// Groups above 1 takes mean and variance in training over that many equal runs of consecutive batch elements, each on its own,
	// as several devices would that each see a part of the batch ("split" or "shuffled" batch normalisation; He et al., MoCo, 2020).
	// 0 and 1 mean the whole batch.
	Groups int
}

// BatchNorm normalises each channel of x, [batch, channels] or [batch, height, width, channels], to mean 0 and variance 1, and with
// affine multiplies by weight and adds bias, both trainable. Constants, names, initial values and running statistics are
// torch.nn.BatchNorm2d's: ε = 1e-5, momentum 0.1, the unbiased variance in running_var; groups move them by the mean over groups.
// It panics in training if the batch is not a multiple of the groups, or a group has one value a channel.
func BatchNorm(scope *model.Scope, x *Node, norm Norm, affine bool) *Node {
	if x.Rank() != 2 && x.Rank() != 4 {
		exceptions.Panicf("batch normalisation of rank %d: it must be 2 or 4", x.Rank())
	}
	return BatchNormAlong(scope, x, 0, norm, affine)
}

// BatchNormAlong is [BatchNorm] with the batch on the given axis and channels on the last.
func BatchNormAlong(scope *model.Scope, x *Node, batchAxis int, norm Norm, affine bool) *Node {
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
		scale := Div(weight, Sqrt(AddScalar(runningVar.NodeValue(x), batchNormEpsilon)))
		shift := Sub(bias, Mul(scale, runningMean.NodeValue(x)))
		return Add(Mul(x, ExpandLeftToRank(scale, x.Rank())), ExpandLeftToRank(shift, x.Rank()))
	}

	groups := max(norm.Groups, 1)
	if dims[batchAxis]%groups != 0 {
		exceptions.Panicf("a batch of %d does not split into %d groups", dims[batchAxis], groups)
	}
	count := x.Shape().Size() / channels / groups
	if count < 2 {
		exceptions.Panicf("batch normalisation of shape %s in %d groups has one value a channel", x.Shape(), groups)
	}
	before := 1
	for _, dim := range dims[:batchAxis] {
		before *= dim
	}
	y, mean, variance := normalised(Reshape(x, before, groups, -1, channels), weight, bias)

	move := func(running *model.Variable, to *Node) {
		to = StopGradient(Reshape(ReduceMean(to, 1), channels))
		old := running.NodeValue(x)
		running.SetNodeValue(Add(MulScalar(old, 1-batchNormMomentum), MulScalar(to, batchNormMomentum)))
	}
	move(runningMean, mean)
	move(runningVar, MulScalar(variance, float64(count)/float64(count-1)))
	return Reshape(y, dims...)
}

// normalised shifts and scales each channel of each group of x, [before, groups, after, channels], to the mean bias and the standard
// deviation weight, both [channels]. It also returns what it found, mean and biased variance, [1, groups, 1, channels].
func normalised(x, weight, bias *Node) (y, mean, variance *Node) {
	mean = ReduceAndKeep(x, ReduceMean, 0, 2)
	// To first order the variance does not change with the mean that it is taken about, so no gradient needs to pass there.
	variance = ReduceAndKeep(Square(Sub(x, StopGradient(mean))), ReduceMean, 0, 2)
	scale := Div(ExpandLeftToRank(weight, 4), Sqrt(AddScalar(variance, batchNormEpsilon)))
	shift := Sub(ExpandLeftToRank(bias, 4), Mul(mean, scale))
	return Add(Mul(x, scale), shift), mean, variance
}
