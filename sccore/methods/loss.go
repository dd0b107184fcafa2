package methods

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
)

// Scopes of the variables. Those below onlineScope are trained.
const (
	onlineScope    = "online"
	targetScope    = "target"
	optimizerScope = "optimizer"
)

// channelMean and channelStd are CIFAR-10's. They are used for every dataset, so that an encoder's input always has the same meaning.
var (
	channelMean = []float32{0.4914, 0.4822, 0.4465}
	channelStd  = []float32{0.2470, 0.2435, 0.2616}
)

// standardized maps images in [0, 1], [N, H, W, 3], to the encoder's scale.
func standardized(images *Node) *Node {
	g := images.Graph()
	perChannel := func(values []float32) *Node { return Reshape(Const(g, values), 1, 1, 1, 3) }
	return Div(Sub(images, perChannel(channelMean)), perChannel(channelStd))
}

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
