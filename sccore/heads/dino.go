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

// DINOHead maps tokens to the logits whose distributions DINO, iBOT and Mugs' group discrimination compare (Caron et al. 2021, "Network
// architecture"): an MLP of three layers with GELU, a bottleneck of Euclidean norm 1, and a last layer without bias whose weights are normalised: each
// logit is the cosine of the bottleneck with one of OutDim directions.
type DINOHead struct {
	HiddenDim     int `json:"hidden"`     // Width of the two hidden layers.
	BottleneckDim int `json:"bottleneck"` // Width of the MLP's output.
	OutDim        int `json:"out"`        // Number of logits.
	// NormLastLayer keeps the lengths of the last layer's weights at 1. Otherwise they are learnt, starting at 1, which the authors do for ViT-S.
	NormLastLayer bool `json:"norm_last_layer"`
}

// DefaultDINOHead returns DINO's head: 2048, 256 and 65,536, with lengths of 1. iBOT's last layer has 8192 logits.
func DefaultDINOHead() DINOHead {
	return DINOHead{HiddenDim: 2048, BottleneckDim: 256, OutDim: 65536, NormLastLayer: true}
}

// DINOLastLayer is the name, below a head's scope, of the layer that DINO leaves as it is for the first epoch: its variables take part in no update
// then. AdamW.UpdateUnless of package optim does that.
const DINOLastLayer = "last_layer"

// Logits maps tokens, [.., D], to [.., OutDim]. Variables live under scope with the names of the official heads, with "/" for ".": mlp/0, mlp/2 and
// mlp/4 with weight and bias, and last_layer with weight_v and, unless NormLastLayer, weight_g. Weights are [in, out]. Calls with the same scope share
// them. Weights of the MLP start normally distributed with standard deviation 0.02 and its biases at 0; the last layer starts as torch.nn.Linear.
func (h DINOHead) Logits(scope *model.Scope, tokens *Node) *Node {
	dims := tokens.Shape().Dimensions
	before := dims[:len(dims)-1]
	x := Reshape(tokens, -1, dims[len(dims)-1])
	mlp := scope.At("mlp")
	x = activation.Gelu(narrow(mlp.At("0"), x, h.HiddenDim))
	x = activation.Gelu(narrow(mlp.At("2"), x, h.HiddenDim))
	x = losses.Unit(narrow(mlp.At("4"), x, h.BottleneckDim))

	last := scope.At(DINOLastLayer)
	limit := 1 / math.Sqrt(float64(h.BottleneckDim))
	directions := last.WithInitializer(initializer.RandomUniformFn(last, -limit, limit)).
		VariableWithShape("weight_v", shapes.Make(x.DType(), h.BottleneckDim, h.OutDim)).NodeValue(x)
	directions = Div(directions, Sqrt(ReduceAndKeep(Square(directions), ReduceSum, 0)))
	x = MatMul(x, directions)
	if !h.NormLastLayer {
		x = Mul(x, last.WithInitializer(initializer.One).VariableWithShape("weight_g", shapes.Make(x.DType(), 1, h.OutDim)).NodeValue(x))
	}
	return Reshape(x, append(append([]int{}, before...), h.OutDim)...)
}

// narrow is a linear layer with DINO's initial values. DINO truncates them at ±2, which is a hundred standard deviations.
func narrow(scope *model.Scope, x *Node, out int) *Node {
	in := x.Shape().Dim(1)
	weight := scope.WithInitializer(initializer.RandomNormalFn(scope, 0.02)).VariableWithShape("weight", shapes.Make(x.DType(), in, out))
	bias := scope.WithInitializer(initializer.Zero).VariableWithShape("bias", shapes.Make(x.DType(), out))
	return Add(MatMul(x, weight.NodeValue(x)), InsertAxes(bias.NodeValue(x), 0))
}
