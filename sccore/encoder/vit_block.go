package encoder

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
)

// parameters returns a transformer's variables as nodes. Variables have the master dtype, nodes the compute dtype.
type parameters struct {
	g               *Graph
	master, compute dtypes.DType
	initStd         float64 // Standard deviation of initial weights.
	epsilon         float64 // Of normalisation.
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

// layerNorm shifts and scales each vector on the last axis of x to mean 0 and variance 1, multiplies by weight and adds bias.
func layerNorm(scope *model.Scope, p parameters, x *Node) *Node {
	dim := x.Shape().Dim(-1)
	weight := ConvertDType(p.masterNode(scope, "weight", ones, dim), p.exact())
	bias := ConvertDType(p.masterNode(scope, "bias", zeros, dim), p.exact())
	x = ConvertDType(x, p.exact())
	mean := ReduceAndKeep(x, ReduceMean, -1)
	// The derivative of the variance by the mean is 0, so no gradient needs to pass there.
	variance := ReduceAndKeep(Square(Sub(x, StopGradient(mean))), ReduceMean, -1)
	y := Mul(Sub(x, mean), Inverse(Sqrt(AddScalar(variance, p.epsilon))))
	return ConvertDType(Add(Mul(y, ExpandLeftToRank(weight, x.Rank())), ExpandLeftToRank(bias, x.Rank())), p.compute)
}

// attention is multi-head self-attention among the tokens of each image, [batch, tokens, Dim]. It also returns the attention maps,
// [batch, NumHeads, tokens, tokens], and the keys before they are rotated, [batch, tokens, Dim]. turn is nil or rotates queries and keys by their positions.
func (v ViT) attention(scope *model.Scope, p parameters, x *Node, turn func(x *Node) *Node) (y, maps, keys *Node) {
	batch, tokens, head := x.Shape().Dim(0), x.Shape().Dim(1), v.Dim/v.NumHeads
	qkv := Reshape(v.project(scope, p, Reshape(x, -1, v.Dim)), batch, tokens, 3, v.NumHeads, head)
	part := func(i int) *Node { return Reshape(SliceAxis(qkv, 2, AxisElem(i)), batch, tokens, v.NumHeads, head) }
	query, key, value := part(0), part(1), part(2)
	if v.QKNorm {
		query, key = layerNorm(scope.At("q_norm"), p, query), layerNorm(scope.At("k_norm"), p, key)
	}
	keys = Reshape(key, batch, tokens, v.Dim)
	if turn != nil {
		query, key = turn(query), turn(key)
	}
	query = MulScalar(query, 1/math.Sqrt(float64(head)))
	maps = Softmax(ConvertDType(Einsum("bqhd,bkhd->bhqk", query, key), p.exact()), -1)
	maps.AssertDims(batch, v.NumHeads, tokens, tokens)
	y = Einsum("bhqk,bkhd->bqhd", ConvertDType(maps, p.compute), value)
	y = linear(scope.At("proj"), p, Reshape(y, -1, v.Dim), v.Dim)
	return Reshape(y, batch, tokens, v.Dim), maps, keys
}

// project returns the queries, keys and values of x, [tokens, Dim], side by side: [tokens, 3·Dim].
func (v ViT) project(scope *model.Scope, p parameters, x *Node) *Node {
	if v.Bias == QKVBias {
		return linear(scope.At("qkv"), p, x, 3*v.Dim)
	}
	y := MatMul(x, p.node(scope.At("qkv"), "weight", p.normal, v.Dim, 3*v.Dim))
	if v.Bias == QVBias {
		query, value := p.node(scope, "q_bias", zeros, v.Dim), p.node(scope, "v_bias", zeros, v.Dim)
		y = Add(y, InsertAxes(Concatenate([]*Node{query, ZerosLike(query), value}, 0), 0))
	}
	return y
}

// mlp maps each token of x, [batch, tokens, Dim], through the hidden layer.
func (v ViT) mlp(scope *model.Scope, p parameters, x *Node) *Node {
	width := v.hidden()
	hidden := Reshape(x, -1, v.Dim)
	if v.SwiGLU {
		both := linear(scope.At("fc1"), p, hidden, 2*width)
		gate := SliceAxis(both, 1, AxisRange(0, width))
		hidden = Mul(Mul(gate, Sigmoid(gate)), SliceAxis(both, 1, AxisRange(width)))
	} else {
		hidden = gelu(linear(scope.At("fc1"), p, hidden, width))
	}
	return Reshape(linear(scope.At("fc2"), p, hidden, v.Dim), x.Shape().Dimensions...)
}

// scaled multiplies a residual, [batch, tokens, Dim], by the factors of LayerScale, if there are any.
func (v ViT) scaled(scope *model.Scope, p parameters, residual *Node) *Node {
	if !v.LayerScale {
		return residual
	}
	return Mul(residual, ExpandLeftToRank(p.node(scope, "gamma", small, v.Dim), 3))
}

// gelu is x·Φ(x) with the exact normal distribution function Φ (Hendrycks and Gimpel, 2016), not an approximation.
func gelu(x *Node) *Node {
	return Mul(x, MulScalar(AddScalar(Erf(MulScalar(x, math.Sqrt2/2)), 1), 0.5))
}
