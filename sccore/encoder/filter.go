package encoder

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// prototypeSize is K_s, the number of rows and columns of a prototype ("Network architecture").
const prototypeSize = 3

// filter is the Object-Aware Filter ("Object-aware Filtering via Cross-attention", with erratum E4). It adds to x, [batch, prefix + rows·columns,
// Dim], what its patches attend to among the object prototypes U. With the normalised patch tokens h as a map, each head computes
//
//	h_q = W_q h,  U_k = W_k U,  U_v = W_v U
//	μ   = flatten(h_q ⋆ U_k), each projected prototype sliding over the zero-padded projected map
//	h_o = h ⊕ σ(μ/√D') avgpool(U_v),   D' = Dim/NumHeads
//
// The paper does not say where in its block the filter is, how h_o is mapped back to Dim features, or how many heads there are. Here the
// filter is between self-attention and MLP, as cross-attention is in a transformer's decoder. A linear layer maps h_o to a residual of the
// patch tokens, as after self-attention. The heads are those of the block. The [CLS] token and registers have no position on the map and pass
// unchanged. What [CLS] then learns of the filter depends on [ViT].BlocksAfterFilter. With 0 the filter is in the last block, where no attention
// follows: for given weights the features of [CLS] are the same as without the filter, which affects them only through the training of shared blocks.
// With 1 or more [CLS] attends to filtered patches.
func (v ViT) filter(scope *model.Scope, p parameters, x *Node, rows, columns int, out *Tokens) *Node {
	batch, head := x.Shape().Dim(0), v.Dim/v.NumHeads
	prototypes := p.masterNode(scope, "prototypes", p.normal, v.Prototypes, prototypeSize, prototypeSize, v.Dim)
	h := Reshape(layerNorm(scope.At("norm"), p, SliceAxis(x, 1, AxisRange(v.prefix()))), -1, v.Dim)
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
	attention.AssertDims(v.NumHeads, batch, rows*columns, v.Prototypes)
	aggregated := layers.Contract("hbpm,mhd->bphd", ConvertDType(attention, p.compute), ReduceMean(value, 1))

	y := linear(scope.At("proj"), p, Concatenate([]*Node{h, Reshape(aggregated, -1, v.Dim)}, -1), v.Dim)
	y = Reshape(y, batch, rows*columns, v.Dim)
	none := Zeros(x.Graph(), SliceAxis(x, 1, AxisRange(0, v.prefix())).Shape())
	out.Prototypes = prototypes
	out.FilterAttention = Reshape(TransposeAllAxes(attention, 1, 0, 2, 3), batch, v.NumHeads, rows, columns, v.Prototypes)
	return Add(x, Concatenate([]*Node{none, y}, 1))
}
