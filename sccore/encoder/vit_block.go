package encoder

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
)

// layerNormEpsilon is the value of DINO and timm. PyTorch's default is 1e-5.
const layerNormEpsilon = 1e-6

// parameters returns a transformer's variables as nodes. Variables have the master dtype, nodes the compute dtype.
type parameters struct {
	g               *Graph
	master, compute dtypes.DType
	initStd         float64 // Standard deviation of initial weights.
}

// masterNode returns the value of a variable in its own dtype.
func (p parameters) masterNode(scope *model.Scope, name string, initial initialValue, dims ...int) *Node {
	return scope.WithInitializer(initial(scope)).VariableWithShape(name, shapes.Make(p.master, dims...)).NodeValue(p.g)
}

// node returns the value of a variable in the dtype of matrix products.
func (p parameters) node(scope *model.Scope, name string, initial initialValue, dims ...int) *Node {
	return ConvertDType(p.masterNode(scope, name, initial, dims...), p.compute)
}

// exact returns the dtype for operations that bfloat16 is too coarse for: at least float32.
func (p parameters) exact() dtypes.DType {
	if p.compute == dtypes.Float64 {
		return dtypes.Float64
	}
	return dtypes.Float32
}

// linear maps x, [rows, in], to x·weight + bias, [rows, out]. Also tried on the CPU plugin, with a third less throughput: the bias as a
// product with ones, so that its gradient is a product too.
func linear(scope *model.Scope, p parameters, x *Node, out int) *Node {
	x.AssertRank(2)
	weight := p.node(scope, "weight", p.normal, x.Shape().Dim(1), out)
	return Add(MatMul(x, weight), InsertAxes(p.node(scope, "bias", zeros, out), 0))
}

// layerNorm shifts and scales each token of x, [batch, tokens, Dim], to mean 0 and variance 1, multiplies by weight and adds bias.
func layerNorm(scope *model.Scope, p parameters, x *Node) *Node {
	dim := x.Shape().Dim(-1)
	weight := ConvertDType(p.masterNode(scope, "weight", ones, dim), p.exact())
	bias := ConvertDType(p.masterNode(scope, "bias", zeros, dim), p.exact())
	x = ConvertDType(x, p.exact())
	mean := ReduceAndKeep(x, ReduceMean, -1)
	// The derivative of the variance by the mean is 0, so no gradient needs to pass there.
	variance := ReduceAndKeep(Square(Sub(x, StopGradient(mean))), ReduceMean, -1)
	y := Mul(Sub(x, mean), Inverse(Sqrt(AddScalar(variance, layerNormEpsilon))))
	return ConvertDType(Add(Mul(y, ExpandLeftToRank(weight, 3)), ExpandLeftToRank(bias, 3)), p.compute)
}

// attention is multi-head self-attention among the tokens of each image, [batch, tokens, Dim]. It also returns the attention maps,
// [batch, NumHeads, tokens, tokens].
func (v ViT) attention(scope *model.Scope, p parameters, x *Node) (y, maps *Node) {
	batch, tokens, head := x.Shape().Dim(0), x.Shape().Dim(1), v.Dim/v.NumHeads
	qkv := linear(scope.At("qkv"), p, Reshape(x, -1, v.Dim), 3*v.Dim)
	qkv = Reshape(qkv, batch, tokens, 3, v.NumHeads, head)
	part := func(i int) *Node { return Reshape(SliceAxis(qkv, 2, AxisElem(i)), batch, tokens, v.NumHeads, head) }
	query, key, value := MulScalar(part(0), 1/math.Sqrt(float64(head))), part(1), part(2)
	maps = Softmax(ConvertDType(Einsum("bqhd,bkhd->bhqk", query, key), p.exact()), -1)
	maps.AssertDims(batch, v.NumHeads, tokens, tokens)
	y = Einsum("bhqk,bkhd->bqhd", ConvertDType(maps, p.compute), value)
	y = linear(scope.At("proj"), p, Reshape(y, -1, v.Dim), v.Dim)
	return Reshape(y, batch, tokens, v.Dim), maps
}

// mlp maps each token of x, [batch, tokens, Dim], through a hidden layer four times as wide.
func (v ViT) mlp(scope *model.Scope, p parameters, x *Node) *Node {
	hidden := gelu(linear(scope.At("fc1"), p, Reshape(x, -1, v.Dim), 4*v.Dim))
	return Reshape(linear(scope.At("fc2"), p, hidden, v.Dim), x.Shape().Dimensions...)
}

// gelu is x·Φ(x) with the exact normal distribution function Φ (Hendrycks and Gimpel, 2016), not an approximation.
func gelu(x *Node) *Node {
	return Mul(x, MulScalar(AddScalar(Erf(MulScalar(x, math.Sqrt2/2)), 1), 0.5))
}
