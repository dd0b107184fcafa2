package encoder

import (
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// parameters returns a transformer's variables as nodes. Variables have the master dtype, nodes the compute dtype.
type parameters struct {
	g               *Graph
	master, compute dtypes.DType
	initStd         float64 // Standard deviation of initial weights.
	epsilon         float64 // Of normalisation.
	lean            bool    // Whether gradients are written by hand where that keeps less for the backward pass.
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
func (p parameters) exact() dtypes.DType { return layers.AtLeastFloat32(p.compute) }

// linear maps x, [rows, in], to x·weight + bias, [rows, out]. Also tried on the CPU plugin, with a third less throughput: the bias as a
// product with ones, so that its gradient is a product too.
func linear(scope *model.Scope, p parameters, x *Node, out int) *Node {
	return linearOf(scope, p, normed{x: x}, out)
}

// linearOf is linear after a norm.
func linearOf(scope *model.Scope, p parameters, n normed, out int) *Node {
	n.x.AssertRank(2)
	weight := p.masterNode(scope, "weight", p.normal, n.x.Shape().Dim(1), out)
	weight, bias := n.into(weight, p.masterNode(scope, "bias", zeros, out))
	return layers.AddBias(layers.Product(n.x, ConvertDType(weight, p.compute)), bias)
}

// normed is what linear layers take from a norm, [rows, in] or [batch, tokens, in]. If weight and bias are not nil, x lacks them, and the layers' own
// take them, which saves a pass over x's gradient for each.
type normed struct{ x, weight, bias *Node }

// norm is layerNorm before linear layers.
func norm(scope *model.Scope, p parameters, x *Node) normed {
	if !p.lean {
		return normed{x: layerNorm(scope, p, x)}
	}
	weight, bias := normWeights(scope, p, x.Shape().Dim(-1))
	return normed{layers.LeanNormal(x, p.epsilon), weight, bias}
}

// into returns the weight, [in, out], and the bias, [out] or nil, of a linear layer with those of the norm before it.
func (n normed) into(weight, bias *Node) (*Node, *Node) {
	if n.weight == nil {
		return weight, bias
	}
	shift := ReduceSum(Mul(weight, InsertAxes(n.bias, -1)), 0)
	if bias != nil {
		shift = Add(bias, shift)
	}
	return Mul(weight, InsertAxes(n.weight, -1)), shift
}

// rows is n with x as rows.
func (n normed) rows() normed {
	n.x = Reshape(n.x, -1, n.x.Shape().Dim(-1))
	return n
}

// normWeights are a norm's variables, in the dtype that it computes in.
func normWeights(scope *model.Scope, p parameters, dim int) (weight, bias *Node) {
	weight = ConvertDType(p.masterNode(scope, "weight", ones, dim), p.exact())
	return weight, ConvertDType(p.masterNode(scope, "bias", zeros, dim), p.exact())
}

// layerNorm shifts and scales each vector on the last axis of x to mean 0 and variance 1, multiplies by weight and adds bias.
func layerNorm(scope *model.Scope, p parameters, x *Node) *Node {
	weight, bias := normWeights(scope, p, x.Shape().Dim(-1))
	if p.lean {
		return layers.LeanNorm(x, weight, bias, p.epsilon)
	}
	x = ConvertDType(x, p.exact())
	mean := ReduceAndKeep(x, ReduceMean, -1)
	// The derivative of the variance by the mean is 0, so no gradient needs to pass there.
	variance := ReduceAndKeep(Square(Sub(x, StopGradient(mean))), ReduceMean, -1)
	y := Mul(Sub(x, mean), Inverse(Sqrt(AddScalar(variance, p.epsilon))))
	return ConvertDType(Add(Mul(y, ExpandLeftToRank(weight, x.Rank())), ExpandLeftToRank(bias, x.Rank())), p.compute)
}

// attention is multi-head self-attention among the tokens of each image, [batch, tokens, Dim]. It also returns the attention maps,
// [batch, NumHeads, tokens, tokens], and the keys before they are rotated, [batch, tokens, Dim]. turn is nil or rotates queries and keys by their positions.
func (v ViT) attention(scope *model.Scope, p parameters, n normed, turn func(x *Node) *Node) (y, maps, keys *Node) {
	batch, tokens, head := n.x.Shape().Dim(0), n.x.Shape().Dim(1), v.Dim/v.NumHeads
	// XLA divides its own operations over several devices. A kernel that it does not know would run on each device for all images.
	fused := fusesAttention(n.x.Graph().Backend(), p.compute) && n.x.Graph().NumDevices() == 1
	parts := v.project(scope, p, n.rows(), fused)
	part := func(i int) *Node { return Reshape(parts[i], batch, tokens, v.NumHeads, head) }
	query, key, value := part(0), part(1), part(2)
	if v.QKNorm {
		query, key = layerNorm(scope.At("q_norm"), p, query), layerNorm(scope.At("k_norm"), p, key)
	}
	keys = Reshape(key, batch, tokens, v.Dim)
	if turn != nil {
		query, key = turn(query), turn(key)
	}
	scaled := MulScalar(query, 1/math.Sqrt(float64(head)))
	maps = softmax(p, ConvertDType(layers.Contract("bqhd,bkhd->bhqk", scaled, key), p.exact()))
	maps.AssertDims(batch, v.NumHeads, tokens, tokens)
	if fused {
		y, _ = BackendFusedScaledDotProductAttention(query, key, value, compute.AttentionAxesLayoutBSHD, &compute.ScaledDotProductAttentionConfig{})
	} else {
		y = layers.Contract("bhqk,bkhd->bqhd", ConvertDType(maps, p.compute), value)
	}
	y = linear(scope.At("proj"), p, Reshape(y, -1, v.Dim), v.Dim)
	return Reshape(y, batch, tokens, v.Dim), maps, keys
}

// fusesAttention reports whether a backend has a kernel of its own for attention in a dtype, forward and backward. Such a kernel keeps no attention
// maps in memory. It is never taken in float32 or wider, so that these mean the same on every backend.
func fusesAttention(b compute.Backend, dtype dtypes.DType) bool {
	has := b.Capabilities().Operations
	return dtype.IsHalfPrecision() && has[compute.OpTypeFusedScaledDotProductAttention] && has[compute.OpTypeFusedScaledDotProductAttentionVJP]
}

// project returns the queries, keys and values of rows, [tokens, Dim], each [tokens, Dim]. Apart, they are products of their own, so that each lies dense
// in memory, as a fused kernel needs them; else they are slices of one product.
func (v ViT) project(scope *model.Scope, p parameters, n normed, apart bool) (parts [3]*Node) {
	weight := p.masterNode(scope.At("qkv"), "weight", p.normal, v.Dim, 3*v.Dim)
	var bias *Node
	switch v.Bias {
	case QKVBias:
		bias = p.masterNode(scope.At("qkv"), "bias", zeros, 3*v.Dim)
	case QVBias:
		query, value := p.masterNode(scope, "q_bias", zeros, v.Dim), p.masterNode(scope, "v_bias", zeros, v.Dim)
		bias = Concatenate([]*Node{query, ZerosLike(query), value}, 0)
	}
	weight, bias = n.into(weight, bias)
	weight = ConvertDType(weight, p.compute)
	var all *Node
	if !apart {
		if all = layers.Product(n.x, weight); bias != nil {
			all = layers.AddBias(all, bias)
		}
		all = Reshape(all, -1, 3, v.Dim)
	}
	for i := range parts {
		columns := AxisRange(i*v.Dim, (i+1)*v.Dim)
		if !apart {
			parts[i] = SliceAxis(all, 1, AxisElem(i))
			continue
		}
		if parts[i] = layers.Product(n.x, SliceAxis(weight, 1, columns)); bias != nil {
			parts[i] = layers.AddBias(parts[i], SliceAxis(bias, 0, columns))
		}
	}
	return parts
}

// mlp maps each token, [batch, tokens, Dim], through the hidden layer.
func (v ViT) mlp(scope *model.Scope, p parameters, n normed) *Node {
	width := v.hidden()
	var hidden *Node
	if v.SwiGLU {
		both := linearOf(scope.At("fc1"), p, n.rows(), 2*width)
		gate := SliceAxis(both, 1, AxisRange(0, width))
		hidden = Mul(Mul(gate, Sigmoid(gate)), SliceAxis(both, 1, AxisRange(width)))
	} else {
		hidden = gelu(p, linearOf(scope.At("fc1"), p, n.rows(), width))
	}
	return Reshape(linear(scope.At("fc2"), p, hidden, v.Dim), n.x.Shape().Dimensions...)
}

// scaled multiplies a residual, [batch, tokens, Dim], by the factors of LayerScale, if there are any.
func (v ViT) scaled(scope *model.Scope, p parameters, residual *Node) *Node {
	if !v.LayerScale {
		return residual
	}
	return Mul(residual, ExpandLeftToRank(p.node(scope, "gamma", small, v.Dim), 3))
}

// gelu is [layers.GELU] in at least float32, by a gradient that computes it again where little is kept for the backward pass.
func gelu(p parameters, x *Node) *Node {
	if p.lean {
		return layers.LeanGELU(x)
	}
	return ConvertDType(layers.GELU(ConvertDType(x, p.exact())), x.DType())
}

// softmax is over the last axis.
func softmax(p parameters, x *Node) *Node {
	if p.lean {
		return layers.LeanSoftmax(x)
	}
	return Softmax(x, -1)
}
