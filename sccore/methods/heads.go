package methods

import (
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
)

// hidden is a linear layer, BatchNorm and ReLU.
func hidden(scope *model.Scope, x *graph.Node, dim int, norm encoder.Norm) *graph.Node {
	x = encoder.Dense(scope.In("linear"), x, dim, false) // BatchNorm has the bias.
	return activation.Relu(encoder.BatchNorm(scope.In("bn"), x, norm, true))
}

// projector maps features, [N, D], to the space where the method compares views, [N, s.ProjectorDim].
func (s Settings) projector(scope *model.Scope, x *graph.Node, norm encoder.Norm) *graph.Node {
	switch s.Method {
	case SimCLR: // Linear, BN, ReLU, linear.
		x = hidden(scope.In("hidden"), x, s.ProjectorHidden, norm)
		return encoder.Dense(scope.In("out"), x, s.ProjectorDim, false)
	case BarlowTwins: // Two hidden layers.
		x = hidden(scope.In("hidden"), x, s.ProjectorHidden, norm)
		x = hidden(scope.In("hidden2"), x, s.ProjectorHidden, norm)
		return encoder.Dense(scope.In("out"), x, s.ProjectorDim, false)
	case MoCo: // MoCo v2's: no BN.
		x = activation.Relu(encoder.Dense(scope.In("hidden"), x, s.ProjectorHidden, true))
		return encoder.Dense(scope.In("out"), x, s.ProjectorDim, true)
	default: // SimSiam: BN on the output too, without its affine part; two layers, its authors' choice for CIFAR-10.
		x = hidden(scope.In("hidden"), x, s.ProjectorHidden, norm)
		x = encoder.Dense(scope.In("out"), x, s.ProjectorDim, false)
		return encoder.BatchNorm(scope.In("out_bn"), x, norm, false)
	}
}

// predictor is SimSiam's bottleneck, [N, s.ProjectorDim] to the same.
func (s Settings) predictor(scope *model.Scope, x *graph.Node, norm encoder.Norm) *graph.Node {
	x = hidden(scope.In("hidden"), x, s.PredictorHidden, norm)
	return encoder.Dense(scope.In("out"), x, s.ProjectorDim, true)
}
