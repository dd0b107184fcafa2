package heads

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/layers"
)

// Projector maps [CLS] and patch tokens to the space in which the method compares them. It is an MLP of three layers with GELU between them
// ("Network architecture"). Where the paper says nothing, it follows DINO's head: GELU, biases, no batch normalisation.
type Projector struct {
	HiddenDim int `json:"hidden"` // Width of the two hidden layers.
	OutDim    int `json:"out"`    // Width of the output.
	// ComputeDType is the dtype of products and hidden activations; the zero value is that of the tokens, which variables and outputs always have.
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
	x := ConvertDType(Reshape(tokens, -1, dims[len(dims)-1]), compute)
	x = layers.LeanGELU(layers.DenseOf(scope.In("layer1"), master, x, p.HiddenDim, true))
	x = layers.LeanGELU(layers.DenseOf(scope.In("layer2"), master, x, p.HiddenDim, true))
	x = losses.Unit(ConvertDType(layers.DenseOf(scope.In("layer3"), master, x, p.OutDim, true), master))
	return Reshape(x, append(append([]int{}, before...), p.OutDim)...)
}

// FLOPs counts the floating-point operations of the products for one token of length dim, forward.
func (p Projector) FLOPs(dim int) float64 {
	hidden := float64(p.HiddenDim)
	return 2 * hidden * (float64(dim) + hidden + float64(p.OutDim))
}
