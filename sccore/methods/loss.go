package methods

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/train"
)

// Scopes of the variables. Those below onlineScope are trained.
const (
	onlineScope    = "online"
	targetScope    = "target"
	optimizerScope = "optimizer"
)

// channelMean and channelStd are CIFAR-10's. They are used for every dataset, so that an encoder's input always has the same meaning.
var (
	channelMean = [3]float64{0.4914, 0.4822, 0.4465}
	channelStd  = [3]float64{0.2470, 0.2435, 0.2616}
)

// standardized maps images in [0, 1], [N, H, W, 3], to the encoder's scale.
func standardized(images *Node) *Node { return encoder.StandardizeBy(images, channelMean, channelStd) }

// projections runs an encoder and its projector, [N, H, W, 3] to [N, ProjectorDim].
func (c Config) projections(scope *model.Scope, images *Node, norm layers.Norm) *Node {
	backbone, err := encoder.ByName(c.Encoder)
	if err != nil {
		panic(err)
	}
	features := backbone.Features(scope.In("backbone"), standardized(images), norm)
	return c.projector(scope.In("projector"), features, norm)
}

// loss is the method's objective on views, [2B, H, W, 3]: the first views of B images, then their second views. Only MoCo uses shuffle, a permutation
// [B] of int32, and targetMomentum, a scalar in [0, 1].
func (c Config) loss(scope *model.Scope, views, shuffle, targetMomentum *Node) *Node {
	if c.Method == MoCo {
		return c.mocoLoss(scope, views, shuffle, targetMomentum)
	}
	// Both views in one pass; BatchNorm keeps them apart, as two passes would.
	online, norm := scope.In(onlineScope), layers.Norm{Train: true, Groups: 2}
	z := c.projections(online, views, norm)
	z1, z2 := halves(z)
	switch c.Method {
	case SimCLR:
		return losses.NTXent(z1, z2, c.Temperature)
	case BarlowTwins:
		return MulScalar(losses.BarlowTwins(z1, z2, c.OffDiagonal), c.LossScale)
	default:
		p1, p2 := halves(c.predictor(online.In("predictor"), z, norm))
		return MulScalar(Add(losses.NegativeCosine(p1, z2), losses.NegativeCosine(p2, z1)), 0.5)
	}
}

func halves(x *Node) (first, second *Node) {
	half := x.Shape().Dimensions[0] / 2
	return Slice(x, AxisRange(0, half)), Slice(x, AxisRange(half))
}

// mocoLoss contrasts the online encoder's queries (first views) with the target encoder's keys (second views) and a queue of earlier keys, then moves
// the keys into the queue.
//
// One device replaces MoCo's several: BatchNorm has separate statistics for NormGroups groups of the batch ("split BN"), and the keys are computed in
// the order of shuffle, so that a query and its key do not share statistics, which would leak the answer. The target's weights move first, by
// targetMomentum, as in the authors' code; 0 copies the online weights, as at the start of a run.
func (c Config) mocoLoss(scope *model.Scope, views, shuffle, targetMomentum *Node) *Node {
	first, second := halves(views)
	norm := layers.Norm{Train: true, Groups: c.NormGroups}
	online := scope.In(onlineScope)
	queries := c.projections(online, first, norm)
	target := scope.In(targetScope)
	train.UpdateEMA(online, target, targetMomentum)

	shuffled := Gather(second, InsertAxes(shuffle, -1))
	keys := c.projections(target, shuffled, norm)
	keys = StopGradient(losses.Unit(unshuffled(keys, shuffle)))

	queue := scope.WithInitializer(initializer.RandomNormalFn(scope, 1)).
		VariableWithShape("queue", shapes.Make(dtypes.Float32, c.Queue, c.ProjectorDim)).SetTrainable(false)
	earlier := queue.NodeValue(views)
	loss := losses.InfoNCE(queries, keys, earlier, c.Temperature)
	queue.SetNodeValue(Concatenate([]*Node{keys, Slice(earlier, AxisRange(0, c.Queue-c.Batch))}, 0))
	return loss
}

// unshuffled restores the order of rows, [B, D], that were computed in the order of the permutation shuffle, [B].
func unshuffled(rows, shuffle *Node) *Node {
	g, batch := rows.Graph(), rows.Shape().Dimensions[0]
	// A one-hot product instead of an inverse permutation needs no sort or scatter, and B is small.
	square := shapes.Make(shuffle.DType(), batch, batch)
	place := Equal(Iota(g, square, 0), BroadcastToDims(InsertAxes(shuffle, 0), batch, batch))
	return MatMul(ConvertDType(place, rows.DType()), rows)
}

// hidden is a linear layer, BatchNorm and ReLU.
func hidden(scope *model.Scope, x *Node, dim int, norm layers.Norm) *Node {
	x = layers.Dense(scope.In("linear"), x, dim, false) // BatchNorm adds the bias.
	return layers.ReLU(layers.BatchNorm(scope.In("bn"), x, norm, true))
}

// projector maps features, [N, D], to the space where the method compares views, [N, s.ProjectorDim].
func (c Config) projector(scope *model.Scope, x *Node, norm layers.Norm) *Node {
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
func (c Config) predictor(scope *model.Scope, x *Node, norm layers.Norm) *Node {
	x = hidden(scope.In("hidden"), x, c.PredictorHidden, norm)
	return layers.Dense(scope.In("out"), x, c.ProjectorDim, true)
}
