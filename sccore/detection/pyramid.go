package detection

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// layerNormEpsilon is the value of detectron2's channel-wise LayerNorm.
const layerNormEpsilon = 1e-6

// PatchSize is the side of the patches in pixels for which [Pyramid] makes the strides 4, 8, 16, 32 and 64.
const PatchSize = 16

// Pyramid maps the patch features of the last block, [batch, rows, columns, dim], to maps of the strides 4, 8, 16, 32 and 64, [height, width, batch,
// channels]: the simple feature pyramid of Li et al., ViTDet (2022), as detectron2's SimpleFeaturePyramid with norm="LN" and LastLevelMaxPool. Each of the
// first four comes from the patch features by two, one or no transposed convolutions, or a max-pooling; a 1×1 and a 3×3 convolution follow. The last is every
// second feature of the fourth. Dim is a multiple of 4. Variables live under scope in p2 to p5.
func Pyramid(scope *model.Scope, features *Node, channels int) []*Node {
	features.AssertRank(4)
	x := TransposeAllAxes(features, 1, 2, 0, 3)
	dim := x.Shape().Dim(3)

	p2 := scope.At("p2")
	finest := layers.TransposedConvolution(p2.At("up1"), x, dim/2)
	finest = layers.GELU(layerNorm(p2.At("norm"), finest))
	finest = layers.TransposedConvolution(p2.At("up2"), finest, dim/4)
	levels := []*Node{
		finest,
		layers.TransposedConvolution(scope.At("p3").At("up1"), x, dim/2),
		x,
		layers.MaxPool2(x),
	}
	for i, level := range levels {
		at := scope.At("p%d", i+2)
		for j, size := range []int{1, 3} {
			at := at.At("conv%d", j)
			// PyTorch's own initial values, as detectron2 sets none.
			limit := 1 / math.Sqrt(float64(size*size*level.Shape().Dim(3)))
			weight := variable(at, level, "weight", uniform(at, limit), size, size, level.Shape().Dim(3), channels)
			level = layerNorm(at.At("norm"), layers.ConvolutionWith(level, weight, 1))
		}
		levels[i] = level
	}
	coarsest := Slice(levels[3], AxisRange().Stride(2), AxisRange().Stride(2))
	return append(levels, coarsest)
}

// layerNorm shifts and scales the channels of each place of x, [height, width, batch, channels], to mean 0 and variance 1, multiplies by weight and adds
// bias.
func layerNorm(scope *model.Scope, x *Node) *Node {
	channels := x.Shape().Dim(3)
	weight, bias := variable(scope, x, "weight", Ones, channels), variable(scope, x, "bias", Zeros, channels)
	mean := ReduceAndKeep(x, ReduceMean, -1)
	// The derivative of the variance by the mean is 0, so no gradient needs to pass there.
	variance := ReduceAndKeep(Square(Sub(x, StopGradient(mean))), ReduceMean, -1)
	y := Mul(Sub(x, mean), Inverse(Sqrt(AddScalar(variance, layerNormEpsilon))))
	return Add(Mul(y, ExpandLeftToRank(weight, 4)), ExpandLeftToRank(bias, 4))
}
