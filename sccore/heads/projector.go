package heads

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/layers"
)

// Projector maps [CLS] and patch tokens to the space in which the method compares them. It is an MLP of three layers with GELU between them
// ("Network architecture"). Where the paper says nothing, it follows DINO's head: GELU, biases, no batch normalisation.
type Projector struct {
	HiddenDim int `json:"hidden"` // Width of the two hidden layers.
	OutDim    int `json:"out"`    // Width of the output.
	// ComputeDType is the dtype of products and hidden activations; the zero value is that of the tokens. Variables and outputs have the dtype of the
	// tokens. GELU and the norm are computed in it too.
	ComputeDType dtypes.DType `json:"-"`
}

// DefaultProjector returns the paper's widths: 2048 in the hidden layers and 256 in the output.
func DefaultProjector() Projector { return Projector{HiddenDim: 2048, OutDim: 256} }

// Project maps tokens, [..., D], to [..., OutDim], and scales each output to Euclidean norm 1. Variables are in layer1, layer2 and layer3
// under scope, as [layers.Dense] names and initialises them.
func (p Projector) Project(scope *model.Scope, tokens *Node) *Node {
	dims := tokens.Shape().Dimensions
	before := dims[:len(dims)-1]
	master, compute := tokens.DType(), p.ComputeDType
	if compute == dtypes.InvalidDType {
		compute = master
	}
	layer := func(name string, x *Node, out int) *Node {
		return ConvertDType(layers.DenseOf(scope.In(name), master, ConvertDType(x, compute), out, true), master)
	}
	x := Reshape(tokens, -1, dims[len(dims)-1])
	x = activation.Gelu(layer("layer1", x, p.HiddenDim))
	x = activation.Gelu(layer("layer2", x, p.HiddenDim))
	x = losses.Unit(layer("layer3", x, p.OutDim))
	return Reshape(x, append(append([]int{}, before...), p.OutDim)...)
}
