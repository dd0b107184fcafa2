package methods

import (
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// hidden is a linear layer, BatchNorm and ReLU.
func hidden(scope *model.Scope, x *graph.Node, dim int, norm layers.Norm) *graph.Node {
	x = layers.Dense(scope.In("linear"), x, dim, false) // BatchNorm adds the bias.
	return layers.ReLU(layers.BatchNorm(scope.In("bn"), x, norm, true))
}

// projector maps features, [N, D], to the space where the method compares views, [N, s.ProjectorDim].
func (c Config) projector(scope *model.Scope, x *graph.Node, norm layers.Norm) *graph.Node {
	switch c.Method {
	case SimCLR: // Linear, BN, ReLU, linear.
		x = hidden(scope.In("hidden"), x, c.ProjectorHidden, norm)
		return layers.Dense(scope.In("out"), x, c.ProjectorDim, false)
	case BarlowTwins: // Two hidden layers.
		x = hidden(scope.In("hidden"), x, c.ProjectorHidden, norm)
		x = hidden(scope.In("hidden2"), x, c.ProjectorHidden, norm)
		return layers.Dense(scope.In("out"), x, c.ProjectorDim, false)
	case MoCo: // MoCo v2's: no BN.
		x = layers.ReLU(layers.Dense(scope.In("hidden"), x, c.ProjectorHidden, true))
		return layers.Dense(scope.In("out"), x, c.ProjectorDim, true)
	default: // SimSiam: two layers, its authors' choice for CIFAR-10, with BN on the output too, without affine parameters.
		x = hidden(scope.In("hidden"), x, c.ProjectorHidden, norm)
		x = layers.Dense(scope.In("out"), x, c.ProjectorDim, false)
		return layers.BatchNorm(scope.In("out_bn"), x, norm, false)
	}
}

// predictor is SimSiam's bottleneck, [N, s.ProjectorDim] to the same.
func (c Config) predictor(scope *model.Scope, x *graph.Node, norm layers.Norm) *graph.Node {
	x = hidden(scope.In("hidden"), x, c.PredictorHidden, norm)
	return layers.Dense(scope.In("out"), x, c.ProjectorDim, true)
}
