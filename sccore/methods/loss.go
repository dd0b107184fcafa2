// Package methods trains an encoder by comparing two views of an image, with the four image-level methods of the paper's augmentation study (Tab.
// effect_aug): SimCLR, Barlow Twins, MoCo and SimSiam.
//
// It takes images of one size and a [Config] and produces the weights of a backbone; a [FeatureExtractor] then maps views to features. A [Trainer]
// serves any number of runs with one compiled step: the augmentation of views, the seed and the learning rate are inputs of the step. A new method
// needs a name, a projector and a case in Config.loss.
package methods

import (
	"fmt"
	"maps"
	"slices"

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

// Names are the names of the methods, in the paper's order.
var Names = []string{SimCLR, BarlowTwins, MoCo, SimSiam}

// The methods' names.
const (
	SimCLR      = "simclr"       // Chen et al. 2020
	BarlowTwins = "barlow-twins" // Zbontar et al. 2021
	MoCo        = "moco"         // He et al. 2020, with MoCo v2's projector
	SimSiam     = "simsiam"      // Chen & He 2021
)

// Config shapes the graph of a training step and its schedule. Fields that a method does not use are 0.
type Config struct {
	Method  string `json:"method" oneof:"simclr|barlow-twins|moco|simsiam"` // The training method: simclr, barlow-twins, moco or simsiam.
	Encoder string `json:"encoder"`                                         // Name of the encoder: resnet18, conv4, or narrower ones such as resnet18-w16 and conv4-w8.
	Batch   int    `json:"batch" range:"[2,4096]"`                          // Images per step; each gives two views.
	Epochs  int    `json:"epochs" range:"[1,2^24]"`

	LearningRate float64 `json:"rate" range:"(0,1e6]"`           // Peak of the cosine schedule, which ends at 0.
	WarmupEpochs int     `json:"warmup_epochs" range:"[0,2^24]"` // Epochs of linear warmup before the cosine.
	Momentum     float64 `json:"momentum" range:"[0,1)"`         // Momentum of SGD.
	WeightDecay  float64 `json:"weight_decay" range:"[0,1e6]"`

	ProjectorHidden int `json:"projector_hidden" range:"[1,2^14]"` // Width of the hidden layers of the projector.
	ProjectorDim    int `json:"projector_dim" range:"[1,2^14]"`    // Width of the projector's output.
	PredictorHidden int `json:"predictor_hidden" range:"[0,2^14]"` // SimSiam: width of the predictor's hidden layer.

	Temperature    float64 `json:"temperature" range:"[0,1e6]"`   // SimCLR, MoCo: temperature of the softmax.
	OffDiagonal    float64 `json:"off_diagonal" range:"[0,1e6]"`  // Barlow Twins: weight λ of the entries off the diagonal.
	LossScale      float64 `json:"loss_scale" range:"[0,1e6]"`    // Barlow Twins: factor on the loss.
	Queue          int     `json:"queue" range:"[0,2^17]"`        // MoCo: length of the queue of keys.
	TargetMomentum float64 `json:"target_momentum" range:"[0,1)"` // MoCo: momentum of the key encoder.
	NormGroups     int     `json:"norm_groups" range:"[0,4096]"`  // MoCo: groups of the split BatchNorm.
}

// Rules returns an error that names the first field that the method cannot do with; see [settings.Check].
func (c Config) Rules() error {
	if _, err := encoder.ByName(c.Encoder); err != nil {
		return fmt.Errorf("encoder: %w", err)
	}
	positive := map[string]float64{}
	switch c.Method {
	case SimCLR:
		positive["temperature"] = c.Temperature
	case BarlowTwins:
		positive["off_diagonal"], positive["loss_scale"] = c.OffDiagonal, c.LossScale
	case MoCo:
		positive["temperature"], positive["norm_groups"] = c.Temperature, float64(c.NormGroups)
	case SimSiam:
		positive["predictor_hidden"] = float64(c.PredictorHidden)
	}
	for _, name := range slices.Sorted(maps.Keys(positive)) {
		if positive[name] == 0 {
			return fmt.Errorf("%s 0 is too small for %s", name, c.Method)
		}
	}
	switch {
	case c.Method == MoCo && c.Batch%c.NormGroups != 0:
		return fmt.Errorf("norm_groups %d does not divide batch %d", c.NormGroups, c.Batch)
	case c.Method == MoCo && c.Queue < c.Batch:
		return fmt.Errorf("queue %d is smaller than batch %d", c.Queue, c.Batch)
	case c.WarmupEpochs >= c.Epochs:
		return fmt.Errorf("warmup_epochs %d is not below epochs %d", c.WarmupEpochs, c.Epochs)
	}
	return nil
}

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

// features are those of the named encoder for images in [0, 1], [N, H, W, 3] to [N, Dim], with the variables backbone under scope.
func features(name string, scope *model.Scope, images *Node, norm layers.Norm) *Node {
	backbone, err := encoder.ByName(name)
	if err != nil {
		panic(err)
	}
	return backbone.Features(scope.In("backbone"), standardized(images), norm)
}

// projections runs an encoder and its projector, [N, H, W, 3] to [N, ProjectorDim].
func (c Config) projections(scope *model.Scope, images *Node, norm layers.Norm) *Node {
	return c.projector(scope.In("projector"), features(c.Encoder, scope, images, norm), norm)
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
	// A one-hot product instead of an inverse permutation needs no sort or scatter, and B is small.
	return MatMul(Transpose(OneHot(shuffle, rows.Shape().Dim(0), rows.DType()), 0, 1), rows)
}

// hidden is a linear layer, BatchNorm and ReLU.
func hidden(scope *model.Scope, x *Node, dim int, norm layers.Norm) *Node {
	x = layers.Dense(scope.In("linear"), x, dim, false) // BatchNorm adds the bias.
	return layers.ReLU(layers.BatchNorm(scope.In("bn"), x, 0, norm, true))
}

// projector maps features, [N, D], to the space where the method compares views, [N, c.ProjectorDim].
func (c Config) projector(scope *model.Scope, x *Node, norm layers.Norm) *Node {
	if c.Method == MoCo { // MoCo v2's: no BN.
		x = layers.ReLU(layers.Dense(scope.In("hidden"), x, c.ProjectorHidden, true))
		return layers.Dense(scope.In("out"), x, c.ProjectorDim, true)
	}
	x = hidden(scope.In("hidden"), x, c.ProjectorHidden, norm)
	if c.Method == BarlowTwins {
		x = hidden(scope.In("hidden2"), x, c.ProjectorHidden, norm)
	}
	x = layers.Dense(scope.In("out"), x, c.ProjectorDim, false)
	if c.Method == SimSiam { // Two layers are its authors' choice for CIFAR-10, with BN on the output too, without affine parameters.
		x = layers.BatchNorm(scope.In("out_bn"), x, 0, norm, false)
	}
	return x
}

// predictor is SimSiam's bottleneck, [N, c.ProjectorDim] to the same.
func (c Config) predictor(scope *model.Scope, x *Node, norm layers.Norm) *Node {
	x = hidden(scope.In("hidden"), x, c.PredictorHidden, norm)
	return layers.Dense(scope.In("out"), x, c.ProjectorDim, true)
}
