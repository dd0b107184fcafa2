package encoder

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
)

// Relate is the local-group module of Mugs (Zhou et al. 2022, "Mugs", section 3.2): a block of the transformer over an image's mean token and those of its
// nearest neighbours in memory, without positions, and the transformer's own final normalisation. It returns the image's token, [batch, Dim].
//
// mean, [batch, Dim], is the mean of all tokens of the last of [Tokens].Blocks; memory, [K, Dim], holds the mean patch tokens of earlier images. The
// neighbours are the given number of rows of memory with the highest cosine similarity to mean. Variables live under scope, the transformer's, in
// relation_blocks/0 and norm. No gradient passes to memory.
func (v ViT) Relate(scope *model.Scope, mean, memory *Node, neighbours int) *Node {
	if err := v.Check(); err != nil {
		panic(err)
	}
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
