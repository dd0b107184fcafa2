package encoder

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
	perChannel := shapes.Make(x.DType(), x.Shape().Dim(-1))
	variable := func(name string, initial model.VariableInitializer) *model.Variable {
		return scope.WithInitializer(initial).VariableWithShape(name, perChannel)
	}
	weight, bias := Ones(x.Graph(), perChannel), Zeros(x.Graph(), perChannel)
	if affine {
		weight, bias = variable("weight", Ones).NodeValue(x), variable("bias", Zeros).NodeValue(x)
	}
	runningMean := variable("running_mean", Zeros).SetTrainable(false)
	runningVar := variable("running_var", Ones).SetTrainable(false)
	if !norm.Train {
		scale := Div(weight, Sqrt(AddScalar(runningVar.NodeValue(x), batchNormEpsilon)))
		return scaled(x, scale, Sub(bias, Mul(scale, runningMean.NodeValue(x))))
	}

	groups := max(norm.Groups, 1)
	batch := x.Shape().Dim(0)
	if batch%groups != 0 {
		exceptions.Panicf("a batch of %d does not split into %d groups", batch, groups)
	}
	count := x.Shape().Size() / x.Shape().Dim(-1) / groups
	if count < 2 {
		exceptions.Panicf("batch normalisation of shape %s in %d groups has one value a channel", x.Shape(), groups)
	}
	normalised, mean, variance := standardised(x, groups)
	move := func(running *model.Variable, to *Node) {
		to = StopGradient(ReduceMean(to, 0))
		old := running.NodeValue(x)
		running.SetNodeValue(Add(MulScalar(old, 1-batchNormMomentum), MulScalar(to, batchNormMomentum)))
	}
	move(runningMean, mean)
	move(runningVar, MulScalar(variance, float64(count)/float64(count-1)))
	return scaled(normalised, weight, bias)
}

// standardised shifts and scales each channel of each group of x to mean 0 and variance 1. The mean and the biased variance that it
// found are [groups, channels].
func standardised(x *Node, groups int) (y, mean, variance *Node) {
	channels := x.Shape().Dim(-1)
	grouped := Reshape(x, groups, -1, channels)
	mean = ReduceAndKeep(grouped, ReduceMean, 1)
	centred := Sub(grouped, mean)
	variance = ReduceAndKeep(Square(centred), ReduceMean, 1)
	y = Div(centred, Sqrt(AddScalar(variance, batchNormEpsilon)))
	return Reshape(y, x.Shape().Dimensions...), Reshape(mean, groups, channels), Reshape(variance, groups, channels)
}

// scaled returns x·scale + shift, scale and shift being [channels].
func scaled(x, scale, shift *Node) *Node {
	return Add(Mul(x, ExpandLeftToRank(scale, x.Rank())), ExpandLeftToRank(shift, x.Rank()))
}
