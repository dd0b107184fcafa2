package heads

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// Pyramid makes feature maps of four sizes from the outputs of four blocks of a plain vision transformer, as iBOT's fine-tuning for segmentation does
// (bytedance/ibot, evaluation/semantic_segmentation/mmcv_custom/register_backbone.py). With patches of 16 pixels, the maps have strides 4, 8, 16 and 32.
type Pyramid struct {
	Blocks [4]int // The blocks, counted from 0, in the order of the levels.
}

// DefaultPyramid returns the pyramid for a transformer of depth blocks. It takes the blocks that end the first third, half, two thirds and the whole,
// ⌈depth·n/12⌉ − 1 for n = 4, 6, 8 and 12: blocks 3, 5, 7 and 11 of 12, and 7, 11, 15 and 23 of 24, as iBOT does.
func DefaultPyramid(depth int) Pyramid {
	var p Pyramid
	for i, n := range []int{4, 6, 8, 12} {
		p.Blocks[i] = (depth*n+11)/12 - 1
	}
	return p
}

// Check returns an error that names the first block that a transformer of depth blocks does not have.
func (p Pyramid) Check(depth int) error {
	for _, block := range p.Blocks {
		if block < 0 || block >= depth {
			return fmt.Errorf("pyramid of block %d, the transformer has blocks 0 to %d", block, depth-1)
		}
	}
	return nil
}

// Levels returns the four maps, the finest first:
//
//	level 0   [4·rows, 4·columns, batch, dim]        two transposed convolutions of 2×2, with batch normalisation and GELU between them
//	level 1   [2·rows, 2·columns, batch, dim]        one transposed convolution of 2×2
//	level 2   [rows, columns, batch, dim]            the tokens
//	level 3   [⌊rows/2⌋, ⌊columns/2⌋, batch, dim]    the maxima of 2×2 tokens
//
// Blocks holds the outputs of the transformer's blocks, not normalised and with the [CLS] token and registers first, [batch, tokens, dim], as
// [encoder.Tokens] has them. Variables live in backbone/fpn1 and backbone/fpn2 under scope and have the dtype of the tokens, but float32 for half
// precision. If train is true, batch normalisation uses the statistics of the whole batch, else the running ones. Levels panics on blocks of another
// shape and if [Pyramid.Check] returns an error.
func (p Pyramid) Levels(scope *model.Scope, blocks []*Node, rows, columns int, train bool) []*Node {
	if err := p.Check(len(blocks)); err != nil {
		panic(err)
	}
	var levels []*Node
	for _, block := range p.Blocks {
		tokens := blocks[block]
		tokens.AssertRank(3)
		if tokens.DType().IsHalfPrecision() {
			tokens = ConvertDType(tokens, dtypes.Float32)
		}
		x := Reshape(SliceAxis(tokens, 1, AxisRange(tokens.Shape().Dim(1)-rows*columns)), -1, rows, columns, tokens.Shape().Dim(2))
		levels = append(levels, TransposeAllAxes(x, 1, 2, 0, 3))
	}
	dim := levels[0].Shape().Dim(3)
	fpn1, fpn2 := scope.At("backbone").At("fpn1"), scope.At("backbone").At("fpn2")

	x := layers.TransposedConvolution(fpn1.At("0"), levels[0], dim)
	x = activation.Gelu(layers.BatchNormAlong(fpn1.At("1"), x, 2, layers.Norm{Train: train}, true))
	levels[0] = layers.TransposedConvolution(fpn1.At("3"), x, dim)
	levels[1] = layers.TransposedConvolution(fpn2.At("0"), levels[1], dim)
	levels[3] = layers.MaxPool2(levels[3])
	return levels
}
