package detection

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
)

const (
	batchNormEpsilon  = 1e-5
	batchNormMomentum = 0.1 // Weight of the new batch in the running statistics.
)

// batchNorm normalises each channel of x, [height, width, boxes, channels], as [layers.BatchNormAlong] does, but takes the statistics of a batch over the valid
// boxes only, [boxes], because the others are padding. If valid is nil, it normalises by the running statistics.
func batchNorm(scope *model.Scope, x, valid *Node) *Node {
	channels := x.Shape().Dim(3)
	weight, bias := variable(scope, x, "weight", Ones, channels), variable(scope, x, "bias", Zeros, channels)
	runningMean := scope.WithInitializer(Zeros).VariableWithShape("running_mean", weight.Shape()).SetTrainable(false)
	runningVar := scope.WithInitializer(Ones).VariableWithShape("running_var", weight.Shape()).SetTrainable(false)
	affine := func(mean, variance *Node) *Node {
		scale := Div(weight, Sqrt(AddScalar(variance, batchNormEpsilon)))
		shift := Sub(bias, Mul(mean, scale))
		return Add(Mul(x, ExpandLeftToRank(scale, 4)), ExpandLeftToRank(shift, 4))
	}
	if valid == nil {
		return affine(runningMean.NodeValue(x), runningVar.NodeValue(x))
	}

	counts := asNumbers(valid, x.DType())
	count := MaxScalar(MulScalar(ReduceAllSum(counts), x.Shape().Dim(0)*x.Shape().Dim(1)), 1)
	counts = Reshape(counts, 1, 1, -1, 1)
	mean := Div(ReduceSum(Mul(x, counts), 0, 1, 2), count)
	// The derivative of the variance by the mean is 0, so no gradient needs to pass there.
	centred := Sub(x, ExpandLeftToRank(StopGradient(mean), 4))
	variance := Div(ReduceSum(Mul(Square(centred), counts), 0, 1, 2), count)

	move := func(running *model.Variable, to *Node) {
		old := running.NodeValue(x)
		running.SetNodeValue(Add(MulScalar(old, 1-batchNormMomentum), MulScalar(StopGradient(to), batchNormMomentum)))
	}
	move(runningMean, mean)
	move(runningVar, Mul(variance, Div(count, MaxScalar(AddScalar(count, -1), 1))))
	return affine(mean, variance)
}
