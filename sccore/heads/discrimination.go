package heads

import (
	"math"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/losses"
)

// DiscriminationHead maps tokens to the features that Mugs' instance and local-group discrimination compare (Zhou et al. 2022, "Mugs"): a projector of
// three layers, which student and teacher have, and a predictor of two layers, which the student alone has. Layers have no biases, and GELU between them.
type DiscriminationHead struct {
	HiddenDim    int `json:"hidden"`    // Width of the projector's two hidden layers.
	OutDim       int `json:"out"`       // Width of the features.
	PredictorDim int `json:"predictor"` // Width of the predictor's hidden layer.
}

// DefaultDiscriminationHead returns Mugs' widths: 2048, 256 and 4096.
func DefaultDiscriminationHead() DiscriminationHead {
	return DiscriminationHead{HiddenDim: 2048, OutDim: 256, PredictorDim: 4096}
}

// Project maps tokens, [.., D], to features of Euclidean norm 1, [.., OutDim]: the teacher's targets. Variables live under scope with the names of the
// official heads, with "/" for ".": projector/0, projector/2 and projector/4 with weight, [in, out]. They start normally distributed with standard
// deviation 0.02.
func (h DiscriminationHead) Project(scope *model.Scope, tokens *Node) *Node {
	scope = scope.At("projector")
	normal := func(scope *model.Scope, _ int) model.VariableInitializer {
		return initializer.RandomNormalFn(scope, 0.02)
	}
	return perceptron(scope, tokens, normal, h.HiddenDim, h.HiddenDim, h.OutDim)
}

// Predict maps tokens, [.., D], to the student's predictions, [.., OutDim], of Euclidean norm 1: the predictor's output for the features of Project. Its
// variables are predictor/0 and predictor/2, which start as torch.nn.Linear.
func (h DiscriminationHead) Predict(scope *model.Scope, tokens *Node) *Node {
	linear := func(scope *model.Scope, in int) model.VariableInitializer {
		limit := 1 / math.Sqrt(float64(in))
		return initializer.RandomUniformFn(scope, -limit, limit)
	}
	return perceptron(scope.At("predictor"), h.Project(scope, tokens), linear, h.PredictorDim, h.OutDim)
}

// perceptron maps x, [.., D], through layers of these widths, with GELU between them, to outputs of Euclidean norm 1. As in torch.nn.Sequential, which
// counts the GELUs, the layers are 0, 2 and so on.
func perceptron(scope *model.Scope, x *Node, initial func(scope *model.Scope, in int) model.VariableInitializer, widths ...int) *Node {
	dims := x.Shape().Dimensions
	before := dims[:len(dims)-1]
	x = Reshape(x, -1, dims[len(dims)-1])
	for i, width := range widths {
		if i > 0 {
			x = activation.Gelu(x)
		}
		layer, in := scope.At("%d", 2*i), x.Shape().Dim(1)
		x = MatMul(x, layer.WithInitializer(initial(layer, in)).VariableWithShape("weight", shapes.Make(x.DType(), in, width)).NodeValue(x))
	}
	return Reshape(losses.Unit(x), append(append([]int{}, before...), x.Shape().Dim(1))...)
}
