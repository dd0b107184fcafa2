// Package heads holds the heads on top of an encoder, as functions of graph nodes: [Projector] maps tokens to the space in which the method
// compares them, and [DINOHead] to the logits that DINO, iBOT and Mugs compare. [Segmentation] maps patch features of a frozen encoder to logits of the classes of pixels. For fine-tuning, [Pyramid] turns the blocks
// of a vision transformer into maps of four sizes, and a [Decoder] maps these to logits.
//
// Features come in as [batch, rows, columns, features]. Maps inside the heads, and logits, are [rows, columns, batch, channels], as in package layers, and
// labels are [height, width, batch]. Variables live under the scope that is passed in. Variables of the heads for fine-tuning have the names of mmsegmentation,
// with "/" for ".", below one scope for the whole network: backbone, neck, decode_head and auxiliary_head.
//
// Add a head as a file of its own. A segmentation head also needs a kind in segmentation.go and a case in testdata/heads.py, or, on the pyramid, a
// network in testdata/pyramid.py.
package heads

import (
	"cmp"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/layers"
)

// Projector maps [CLS] and patch tokens to the space in which the method compares them. It is an MLP of three layers with GELU between them
// ("Network architecture"). Where the paper says nothing, it follows DINO's head: GELU, biases, no batch normalisation.
type Projector struct {
	HiddenDim int `json:"hidden" range:"[1,2^14]"` // Width of the two hidden layers.
	OutDim    int `json:"out" range:"[2,2^14]"`    // Width of the output.
	// ComputeDType is the dtype of products and hidden activations; the zero value is the dtype of the tokens, which variables and outputs always have.
	ComputeDType dtypes.DType `json:"-"`
}

// DefaultProjector returns the paper's widths: 2048 in the hidden layers and 256 in the output.
func DefaultProjector() Projector { return Projector{HiddenDim: 2048, OutDim: 256} }

// Project maps tokens, [..., D], to [..., OutDim], and scales each output to Euclidean norm 1. Variables are in layer1, layer2 and layer3
// under scope, as [layers.Dense] names and initialises them.
func (p Projector) Project(scope *model.Scope, tokens *Node) *Node {
	return ofRows(tokens, func(x *Node) *Node { return losses.Unit(p.outputs(scope, x)) })
}

// Outputs is [Projector.Project] without scaling.
func (p Projector) Outputs(scope *model.Scope, tokens *Node) *Node {
	return ofRows(tokens, func(x *Node) *Node { return p.outputs(scope, x) })
}

// outputs maps rows, [N, D], to [N, OutDim].
func (p Projector) outputs(scope *model.Scope, rows *Node) *Node {
	master := rows.DType()
	x := ConvertDType(rows, cmp.Or(p.ComputeDType, master))
	x = layers.LeanGELU(layers.DenseOf(scope.In("layer1"), master, x, p.HiddenDim, true))
	x = layers.LeanGELU(layers.DenseOf(scope.In("layer2"), master, x, p.HiddenDim, true))
	return ConvertDType(layers.DenseOf(scope.In("layer3"), master, x, p.OutDim, true), master)
}

// ofRows applies a function of rows, [N, D] to [N, Out], to the last axis of x, [.., D].
func ofRows(x *Node, f func(rows *Node) *Node) *Node {
	dims := x.Shape().Dimensions
	last := len(dims) - 1
	y := f(Reshape(x, -1, dims[last]))
	return Reshape(y, append(slices.Clone(dims[:last]), y.Shape().Dim(1))...)
}

// FLOPs counts the floating-point operations of the products for one token of length dim, forward.
func (p Projector) FLOPs(dim int) float64 {
	hidden := float64(p.HiddenDim)
	return 2 * hidden * (float64(dim) + hidden + float64(p.OutDim))
}

// DINOHead maps tokens to the logits whose distributions DINO, iBOT and Mugs' group discrimination compare (Caron et al. 2021, "Network
// architecture"): an MLP of three layers with GELU, a bottleneck of Euclidean norm 1, and a last layer without bias whose weights are normalised: each
// logit is the cosine of the bottleneck with one of OutDim directions.
type DINOHead struct {
	HiddenDim     int `json:"hidden" range:"[1,2^14]"`     // Width of the two hidden layers.
	BottleneckDim int `json:"bottleneck" range:"[1,2^14]"` // Width of the MLP's output.
	OutDim        int `json:"out" range:"[2,2^18]"`        // Number of logits.
	// NormLastLayer keeps the lengths of the last layer's weights at 1. Otherwise they are learnt, starting at 1, which the authors do for ViT-S.
	NormLastLayer bool `json:"norm_last_layer"`
}

// DefaultDINOHead returns DINO's head: 2048, 256 and 65,536, with lengths of 1. iBOT's last layer has 8192 logits.
func DefaultDINOHead() DINOHead {
	return DINOHead{HiddenDim: 2048, BottleneckDim: 256, OutDim: 65536, NormLastLayer: true}
}

// DINOLastLayer is the name, below a head's scope, of the layer that DINO leaves as it is for the first epoch: its variables take part in no update
// then. AdamW.Frozen of package optim does that.
const DINOLastLayer = "last_layer"

// Logits maps tokens, [.., D], to [.., OutDim]. Variables live under scope with the names of the official heads, with "/" for ".": mlp/0, mlp/2 and
// mlp/4 with weight and bias, and last_layer with weight_v and, unless NormLastLayer, weight_g. Weights are [in, out]. Calls with the same scope share
// them. Weights of the MLP start normally distributed with standard deviation 0.02 and its biases at 0; the last layer starts as torch.nn.Linear.
func (h DINOHead) Logits(scope *model.Scope, tokens *Node) *Node {
	return ofRows(perceptron(scope.At("mlp"), tokens, narrow, true, h.HiddenDim, h.HiddenDim, h.BottleneckDim), func(x *Node) *Node {
		last := scope.At(DINOLastLayer)
		directions := last.WithInitializer(layers.Uniform(last, h.BottleneckDim)).
			VariableWithShape("weight_v", shapes.Make(x.DType(), h.BottleneckDim, h.OutDim)).NodeValue(x)
		directions = Div(directions, Sqrt(ReduceAndKeep(Square(directions), ReduceSum, 0)))
		x = MatMul(x, directions)
		if h.NormLastLayer {
			return x
		}
		return Mul(x, last.WithInitializer(initializer.One).VariableWithShape("weight_g", shapes.Make(x.DType(), 1, h.OutDim)).NodeValue(x))
	})
}

// narrow draws DINO's initial weights. DINO truncates them at ±2, which is a hundred standard deviations.
func narrow(scope *model.Scope, _ int) model.VariableInitializer {
	return initializer.RandomNormalFn(scope, 0.02)
}

// DiscriminationHead maps tokens to the features that Mugs' instance and local-group discrimination compare (Zhou et al. 2022, "Mugs"): a projector of
// three layers, which student and teacher have, and a predictor of two layers, which the student alone has. Layers have no biases, and GELU between them.
type DiscriminationHead struct {
	HiddenDim    int `json:"hidden" range:"[1,2^14]"`    // Width of the projector's two hidden layers.
	OutDim       int `json:"out" range:"[2,2^14]"`       // Width of the features.
	PredictorDim int `json:"predictor" range:"[1,2^14]"` // Width of the predictor's hidden layer.
}

// DefaultDiscriminationHead returns Mugs' widths: 2048, 256 and 4096.
func DefaultDiscriminationHead() DiscriminationHead {
	return DiscriminationHead{HiddenDim: 2048, OutDim: 256, PredictorDim: 4096}
}

// Project maps tokens, [.., D], to features of Euclidean norm 1, [.., OutDim]: the teacher's targets. Variables live under scope with the names of the official
// heads, with "/" for ".": projector/0, projector/2 and projector/4 with weight, [in, out]. They start normally distributed with standard deviation 0.02.
func (h DiscriminationHead) Project(scope *model.Scope, tokens *Node) *Node {
	return perceptron(scope.At("projector"), tokens, narrow, false, h.HiddenDim, h.HiddenDim, h.OutDim)
}

// Predict maps tokens, [.., D], to the student's predictions, [.., OutDim], of Euclidean norm 1: the predictor's output for the features of Project. Its
// variables are predictor/0 and predictor/2, which start as torch.nn.Linear.
func (h DiscriminationHead) Predict(scope *model.Scope, tokens *Node) *Node {
	return perceptron(scope.At("predictor"), h.Project(scope, tokens), layers.Uniform, false, h.PredictorDim, h.OutDim)
}

// perceptron maps x, [.., D], through layers of these widths, with GELU between them, to outputs of Euclidean norm 1. As in torch.nn.Sequential, which
// counts the GELUs, the layers are 0, 2 and so on.
func perceptron(scope *model.Scope, x *Node, initial func(scope *model.Scope, in int) model.VariableInitializer, biased bool, widths ...int) *Node {
	return ofRows(x, func(x *Node) *Node {
		for i, width := range widths {
			if i > 0 {
				x = activation.Gelu(x)
			}
			layer, in := scope.At("%d", 2*i), x.Shape().Dim(1)
			x = MatMul(x, layer.WithInitializer(initial(layer, in)).VariableWithShape("weight", shapes.Make(x.DType(), in, width)).NodeValue(x))
			if biased {
				x = Add(x, InsertAxes(layer.WithInitializer(initializer.Zero).VariableWithShape("bias", shapes.Make(x.DType(), width)).NodeValue(x), 0))
			}
		}
		return losses.Unit(x)
	})
}
