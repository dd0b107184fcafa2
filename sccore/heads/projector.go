package heads

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/layers"
)

// Projector maps [CLS] and patch tokens to the space where the method compares them: a multilayer perceptron of three layers with GELU
// between them ("Network architecture"). What the paper does not say is as in DINO's head: GELU, biases, no batch normalisation.
type Projector struct {
	HiddenDim int `json:"hidden"` // Width of the two layers inside.
	OutDim    int `json:"out"`    // Width of the output.
}

// DefaultProjector returns the paper's widths, 2048 inside and 256 out.
func DefaultProjector() Projector { return Projector{HiddenDim: 2048, OutDim: 256} }

// Project returns [..., Out], each output scaled to Euclidean length 1, for tokens [..., D]. Variables are layer1, layer2 and layer3 below
// scope, as [layers.Dense] names and initialises them.
func (p Projector) Project(scope *model.Scope, tokens *Node) *Node {
	dims := tokens.Shape().Dimensions
	before := dims[:len(dims)-1]
	x := Reshape(tokens, -1, dims[len(dims)-1])
	x = activation.Gelu(layers.Dense(scope.In("layer1"), x, p.HiddenDim, true))
	x = activation.Gelu(layers.Dense(scope.In("layer2"), x, p.HiddenDim, true))
	x = losses.Unit(layers.Dense(scope.In("layer3"), x, p.OutDim, true))
	return Reshape(x, append(append([]int{}, before...), p.OutDim)...)
}
