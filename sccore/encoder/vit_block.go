package encoder

import (
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/settings"
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
func (p parameters) masterNode(scope *model.Scope, name string, initial model.VariableInitializer, dims ...int) *Node {
	return scope.WithInitializer(initial).VariableWithShape(name, shapes.Make(p.master, dims...)).NodeValue(p.g)
}

// node returns the value of a variable in the dtype of matrix products.
func (p parameters) node(scope *model.Scope, name string, initial model.VariableInitializer, dims ...int) *Node {
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
	weight := p.masterNode(scope, "weight", p.normal(scope), n.x.Shape().Dim(1), out)
	weight, bias := n.into(weight, p.masterNode(scope, "bias", Zeros, out))
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

// into merges the norm into the linear layer after it, and returns the layer's weight, [in, out], and bias, [out] or nil.
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
	weight = ConvertDType(p.masterNode(scope, "weight", Ones, dim), p.exact())
	return weight, ConvertDType(p.masterNode(scope, "bias", Zeros, dim), p.exact())
}

// layerNorm shifts and scales each vector on the last axis of x to mean 0 and variance 1, multiplies by weight and adds bias.
func layerNorm(scope *model.Scope, p parameters, x *Node) *Node {
	weight, bias := normWeights(scope, p, x.Shape().Dim(-1))
	if p.lean {
		return layers.LeanNorm(x, weight, bias, p.epsilon)
	}
	return ConvertDType(layers.LayerNorm(ConvertDType(x, p.exact()), weight, bias, p.epsilon), p.compute)
}

// attention is multi-head self-attention among the tokens of each image, [batch, tokens, Dim]. It also returns the attention maps,
// [batch, NumHeads, tokens, tokens], and the keys before they are rotated, [batch, tokens, Dim]. turn is nil or rotates queries and keys by their positions.
func (v ViT) attention(scope *model.Scope, p parameters, n normed, turn func(x *Node) *Node) (y, maps, keys *Node) {
	batch, tokens, head := n.x.Shape().Dim(0), n.x.Shape().Dim(1), v.Dim/v.NumHeads
	// XLA divides its own operations over several devices. A kernel that it does not know would run on each device for all images.
	fused := fusesAttention(n.x.Graph().Backend(), p.compute, head) && n.x.Graph().NumDevices() == 1
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
	if fused {
		y, _ = BackendFusedScaledDotProductAttention(query, key, value, compute.AttentionAxesLayoutBSHD, &compute.ScaledDotProductAttentionConfig{})
	} else {
		y = layers.Contract("bhqk,bkhd->bqhd", ConvertDType(maps, p.compute), value)
	}
	y = linear(scope.At("proj"), p, Reshape(y, -1, v.Dim), v.Dim)
	return Reshape(y, batch, tokens, v.Dim), maps, keys
}

// fusesAttention reports whether a backend has a kernel of its own for attention in a dtype with heads of so many dimensions, forward and backward. Such a kernel
// keeps no attention maps in memory. It is never taken in float32 or wider, so that these mean the same on every backend. cuDNN's takes multiples of 8 to 128.
func fusesAttention(b compute.Backend, dtype dtypes.DType, head int) bool {
	has := b.Capabilities().Operations
	return dtype.IsHalfPrecision() && head%8 == 0 && head <= 128 && has[compute.OpTypeFusedScaledDotProductAttention] && has[compute.OpTypeFusedScaledDotProductAttentionVJP]
}

// project returns the queries, keys and values of rows, [tokens, Dim], each [tokens, Dim]. Apart, they are products of their own, so that each lies dense
// in memory, as a fused kernel needs them; else they are slices of one product.
func (v ViT) project(scope *model.Scope, p parameters, n normed, apart bool) (parts [3]*Node) {
	weight := p.masterNode(scope.At("qkv"), "weight", p.normal(scope), v.Dim, 3*v.Dim)
	var bias *Node
	switch v.Bias {
	case QKVBias:
		bias = p.masterNode(scope.At("qkv"), "bias", Zeros, 3*v.Dim)
	case QVBias:
		query, value := p.masterNode(scope, "q_bias", Zeros, v.Dim), p.masterNode(scope, "v_bias", Zeros, v.Dim)
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
	width := v.Hidden()
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

// prototypeSize is K_s, the number of rows and columns of a prototype ("Network architecture").
const prototypeSize = 3

// filter is the Object-Aware Filter ("Object-aware Filtering via Cross-attention", with erratum E4). It adds to x, [batch, prefix + rows·columns,
// Dim], what its patches attend to among the object prototypes U. With the normalised patch tokens h as a map, each head computes
//
//	h_q = W_q h,  U_k = W_k U,  U_v = W_v U
//	μ   = flatten(h_q ⋆ U_k), each projected prototype sliding over the zero-padded projected map
//	h_o = h ⊕ σ(μ/√D') avgpool(U_v),   D' = Dim/NumHeads
//
// The paper does not say where in its block the filter is, how h_o is mapped back to Dim features, or how many heads there are. Here the filter is between
// self-attention and MLP, as cross-attention is in a transformer's decoder. A linear layer maps h_o to a residual of the patch tokens, as after self-attention.
// The filter has as many heads as the block. The [CLS] token and registers have no position on the map and pass unchanged. What [CLS] then learns of the filter depends
// on [ViT].BlocksAfterFilter. With 0 the filter is in the last block, where no attention follows: for given weights the features of [CLS] are the same as
// without the filter, which affects them only through the training of shared blocks. With 1 or more [CLS] attends to filtered patches.
//
// [ViT].Filter may put a control in its place.
func (v ViT) filter(scope *model.Scope, p parameters, x *Node, rows, columns int, out *Tokens) *Node {
	patches, batch, head := SliceAxis(x, 1, AxisRange(v.prefix())), x.Shape().Dim(0), v.Dim/v.NumHeads
	added := func(y *Node) *Node {
		none := Zeros(x.Graph(), SliceAxis(x, 1, AxisRange(0, v.prefix())).Shape())
		return Add(x, Concatenate([]*Node{none, Reshape(y, batch, rows*columns, v.Dim)}, 1))
	}
	normed := func() *Node { return Reshape(layerNorm(scope.At("norm"), p, patches), -1, v.Dim) }
	if v.Filter == ResidualBlock {
		y := gelu(p, layers.Product(normed(), p.node(scope.At("fc1"), "weight", p.normal(scope), v.Dim, v.blockWidth())))
		return added(layers.Product(y, p.node(scope.At("fc2"), "weight", p.normal(scope), v.blockWidth(), v.Dim)))
	}
	prototypes := p.masterNode(scope, "prototypes", p.normal(scope), v.Prototypes, prototypeSize, prototypeSize, v.Dim)
	if v.Filter == FrozenPrototypes {
		scope.GetVariable("prototypes").SetTrainable(false)
	}
	h := normed()
	u := Reshape(ConvertDType(prototypes, p.compute), -1, v.Dim)

	const places = prototypeSize * prototypeSize
	query := Reshape(linear(scope.At("q"), p, h, v.Dim), batch, rows, columns, v.Dim)
	query = layers.Unfold(layers.Unfold(query, 2, prototypeSize, 1), 1, prototypeSize, 1)
	query = Reshape(query, batch, rows*columns, places, v.NumHeads, head)
	key := Reshape(linear(scope.At("k"), p, u, v.Dim), v.Prototypes, places, v.NumHeads, head)
	value := Reshape(linear(scope.At("v"), p, u, v.Dim), v.Prototypes, places, v.NumHeads, head)

	// One product sums over the positions and the features of a prototype.
	query = Reshape(TransposeAllAxes(query, 0, 1, 3, 2, 4), batch, rows*columns, v.NumHeads, places*head)
	key = Reshape(TransposeAllAxes(key, 0, 2, 1, 3), v.Prototypes, v.NumHeads, places*head)
	similarity := MulScalar(ConvertDType(layers.Contract("bphf,mhf->hbpm", query, key), p.exact()), 1/math.Sqrt(float64(head)))
	attention := softmax(p, similarity)
	aggregated := layers.Contract("hbpm,mhd->bphd", ConvertDType(attention, p.compute), ReduceMean(value, 1))

	y := linear(scope.At("proj"), p, Concatenate([]*Node{h, Reshape(aggregated, -1, v.Dim)}, -1), v.Dim)
	out.Prototypes = prototypes
	out.FilterAttention = Reshape(TransposeAllAxes(attention, 1, 0, 2, 3), batch, v.NumHeads, rows, columns, v.Prototypes)
	return added(y)
}

// RoPE are rotary position embeddings (Su et al., 2021) in two dimensions, as DINOv3 has them. The queries and keys of patch tokens are rotated,
// but not the ones of [CLS] and registers. Coordinates are the centres of patches, with each axis of the image from −1 to 1. The first
// half of a head holds the first coordinates of the rotated pairs, the second half the second ones.
//
// In training DINOv3 also shifts and scales the coordinates at random. That is not done here.
type RoPE struct {
	// Base is the ratio of the longest period to the shortest, but for one step of the progression; 100 in DINOv3, 0 for no RoPE.
	Base float64 `range:"[0,)"`
	// BF16 rounds the periods to bfloat16, as in DINOv3's official files.
	BF16 bool
}

// Periods returns the periods of a head's rotations, Base^(4i/head) for i from 0 to head/4.
func (r RoPE) Periods(head int) []float32 {
	periods := make([]float32, head/4)
	for i := range periods {
		periods[i] = float32(math.Pow(r.Base, 4*float64(i)/float64(head)))
		if r.BF16 {
			periods[i] = bfloat16.FromFloat32(periods[i]).Float32()
		}
	}
	return periods
}

// rotation returns a function that rotates queries or keys, [batch, prefix + rows·columns, NumHeads, head], by the positions of their patches, or
// nil without RoPE.
func (v ViT) rotation(p parameters, rows, columns int) func(x *Node) *Node {
	if v.RoPE.Base == 0 {
		return nil
	}
	head, tokens := v.Dim/v.NumHeads, v.prefix()+rows*columns
	periods := v.RoPE.Periods(head)
	cosines, sines := make([]float32, tokens*head), make([]float32, tokens*head)
	for i := range v.prefix() * head {
		cosines[i] = 1
	}
	for row := range rows {
		for column := range columns {
			at := (v.prefix() + row*columns + column) * head
			for axis, coordinate := range []float64{(2*float64(row)+1)/float64(rows) - 1, (2*float64(column)+1)/float64(columns) - 1} {
				for i, period := range periods {
					sine, cosine := math.Sincos(2 * math.Pi * coordinate / float64(period))
					for half := range 2 {
						place := at + half*head/2 + axis*len(periods) + i
						cosines[place], sines[place] = float32(cosine), float32(sine)
					}
				}
			}
		}
	}
	table := func(values []float32) *Node {
		return ConvertDType(ConstTensor(p.g, tensors.FromFlatDataAndDimensions(values, 1, tokens, 1, head)), p.exact())
	}
	cosine, sine := table(cosines), table(sines)
	return func(x *Node) *Node {
		x = ConvertDType(x, p.exact())
		turned := Concatenate([]*Node{Neg(SliceAxis(x, 3, AxisRange(head/2))), SliceAxis(x, 3, AxisRange(0, head/2))}, 3)
		return ConvertDType(Add(Mul(x, cosine), Mul(turned, sine)), p.compute)
	}
}

// Relate is the local-group module of Mugs (Zhou et al. 2022, "Mugs", section 3.2): a block of the transformer over the mean tokens of an image and of its
// nearest neighbours in memory, without positions, and the transformer's own final normalisation. It returns the image's token, [batch, Dim].
//
// mean, [batch, Dim], is the mean of all tokens of the last of [Tokens].Blocks; memory, [K, Dim], holds the mean patch tokens of earlier images. The
// neighbours are the given number of rows of memory with the highest cosine similarity to mean. Variables live under scope, the transformer's, in
// relation_blocks/0 and norm. No gradient passes to memory.
func (v ViT) Relate(scope *model.Scope, mean, memory *Node, neighbours int) *Node {
	settings.Require(v)
	batch := mean.Shape().Dim(0)
	mean.AssertDims(batch, v.Dim)
	memory.AssertDims(-1, v.Dim)
	memory = StopGradient(memory)
	similarities := MatMul(losses.Unit(StopGradient(mean)), Transpose(losses.Unit(memory), 0, 1))
	_, nearest := TopK(similarities, neighbours, -1)
	near := Reshape(Gather(memory, Reshape(nearest, -1, 1)), batch, neighbours, v.Dim)

	p := v.parameters(mean)
	x := ConvertDType(Concatenate([]*Node{InsertAxes(mean, 1), near}, 1), p.compute)
	block := scope.At("relation_blocks").At("0")
	y, _, _ := v.attention(block.At("attn"), p, norm(block.At("norm1"), p, x), nil)
	x = Add(x, v.scaled(block.At("ls1"), p, y))
	x = Add(x, v.scaled(block.At("ls2"), p, v.mlp(block.At("mlp"), p, norm(block.At("norm2"), p, x))))
	x = layerNorm(scope.At("norm"), p, SliceAxis(x, 1, AxisElem(0)))
	return ConvertDType(Reshape(x, batch, v.Dim), p.master)
}
