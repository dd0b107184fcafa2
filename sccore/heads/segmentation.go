package heads

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/settings"
)

// The kinds of segmentation heads.
const (
	Linear = "linear" // One 1×1 convolution.
	FCN    = "fcn"    // Three blocks that each double the resolution.
)

// Segmentation maps patch features to classes (paper, appendix "Transfer Learning on Semantic Segmentation", "Network architecture"). [Linear] is a 1×1
// convolution. [FCN] has three blocks of two 1×1 convolutions, a 3×3 convolution and a bilinear upsampling by 2, with ReLU after each convolution, and ends
// with a 1×1 convolution to the classes. The paper gives neither the number of channels nor the layers after the blocks.
type Segmentation struct {
	Kind    string `oneof:"linear|fcn"`
	Classes int    `range:"[2,255]"`
	Width   int    // Channels in the blocks of the FCN. The linear head ignores it.
}

// Upsampling is the factor from the resolution of patches to the resolution of the training loss. It is the FCN's own factor and serves both heads.
const Upsampling = 8

// Rules returns an error if the FCN has no width or one whose largest weight, 3×3 by Width by Width, is too large; see [settings.Check].
func (h Segmentation) Rules() error {
	return lo.Ternary(h.Kind == Linear, nil, settings.Between("width", h.Width, 1, 4096))
}

// Logits maps features, [batch, rows, columns, features], to [s·rows, s·columns, batch, Classes], where s is 1 for the linear head and 8 for
// the FCN. Variables live under scope and have the dtype of the features.
func (h Segmentation) Logits(scope *model.Scope, features *Node) *Node {
	features.AssertRank(4)
	x := TransposeAllAxes(features, 1, 2, 0, 3)
	if h.Kind == Linear {
		return h.classes(scope, x)
	}
	for i := range 3 {
		block := scope.At("block%d", i)
		for j, size := range []int{1, 1, 3} {
			at := block.At("conv%d", j)
			x = layers.ReLU(layers.BiasedConvolution(at, x, size, h.Width, layers.He(at, size, h.Width)))
		}
		x = resized(x, 2)
	}
	return h.classes(scope.At("classes"), x)
}

// Loss is the mean cross-entropy between the logits, resized bilinearly to 8 times the resolution of the patches, and integer labels,
// [8·rows, 8·columns, batch]. Pixels whose label is not a class, such as [datasets.Ignore], do not count. If no pixel counts, the loss is 0.
func (h Segmentation) Loss(logits, labels *Node) *Node {
	if h.Kind == Linear {
		logits = resized(logits, Upsampling)
	}
	labels.AssertDims(logits.Shape().Dimensions[:3]...)
	sum, count := crossEntropy(logits, labels)
	return Div(sum, MaxScalar(count, 1))
}

// resized upsamples x, [rows, columns, batch, channels], bilinearly.
func resized(x *Node, by int) *Node {
	return resizedTo(x, by*x.Shape().Dim(0), by*x.Shape().Dim(1), layers.ResizeBilinear)
}

// classes is the layer that returns the logits. Its weight is initialised as in PyTorch's convolutions, so that the first logits are small.
func (h Segmentation) classes(scope *model.Scope, x *Node) *Node {
	return layers.BiasedConvolution(scope, x, 1, h.Classes, layers.Uniform(scope, x.Shape().Dim(-1)))
}

// CrossEntropy is the loss of the heads that are fine-tuned with their encoder, of a [Decoder]. It resizes logits, [rows,
// columns, batch, classes], bilinearly (align_corners=False) to integer labels, [height, width, batch], and returns the sum of the cross-entropies of
// the pixels divided by the number of all pixels. Pixels whose label is not a class, such as [datasets.Ignore], add 0 to the sum and count in the
// number. So does mmsegmentation with its default avg_non_ignore=False, and so did all of its versions before 0.23. [Segmentation.Loss] and
// torch.nn.CrossEntropyLoss divide by the number of pixels with a class instead.
//
// Dividing by a constant makes the loss of a batch the mean of the losses of its parts, so it does not depend on the number of devices.
func CrossEntropy(logits, labels *Node) *Node {
	labels.AssertDims(-1, -1, logits.Shape().Dim(2))
	sum, _ := crossEntropy(resizedTo(logits, labels.Shape().Dim(0), labels.Shape().Dim(1), layers.ResizeBilinear), labels)
	return DivScalar(sum, float64(labels.Shape().Size()))
}

// crossEntropy returns the sum of the cross-entropies between logits, [rows, columns, batch, classes], and labels, [rows, columns, batch], and the
// number of pixels with a class, which count.
func crossEntropy(logits, labels *Node) (sum, count *Node) {
	chosen := OneHot(ConvertDType(labels, dtypes.Int32), logits.Shape().Dim(3), logits.DType())
	return Neg(ReduceAllSum(Mul(LogSoftmax(logits), chosen))), ReduceAllSum(chosen)
}

// PredictPixels predicts the class of each pixel of a height×width image from its logits, [rows, columns, classes]. It resizes the logits
// bilinearly, as [layers.ResizeBilinear] does, and returns the class with the largest logit, or the first of equal ones. It runs on the host,
// because the device would compile a graph for each size of image.
func PredictPixels(logits []float32, rows, columns, classes, height, width int) []uint8 {
	out := make([]uint8, 0, height*width)
	across := layers.BilinearTaps(columns, width)
	line := make([]float32, columns*classes)
	for _, down := range layers.BilinearTaps(rows, height) {
		low, high := logits[down.Low*columns*classes:][:columns*classes], logits[down.High*columns*classes:][:columns*classes]
		share := float32(down.Share)
		for i := range line {
			line[i] = low[i] + float32(share*(high[i]-low[i]))
		}
		for _, tap := range across {
			low, high, share := line[tap.Low*classes:][:classes], line[tap.High*classes:][:classes], float32(tap.Share)
			best, largest := 0, low[0]+float32(share*(high[0]-low[0]))
			for class := 1; class < classes; class++ {
				if value := low[class] + float32(share*(high[class]-low[class])); value > largest {
					best, largest = class, value
				}
			}
			out = append(out, uint8(best))
		}
	}
	return out
}

// Pyramid makes feature maps of four sizes from the outputs of four blocks of a plain vision transformer, as iBOT's fine-tuning for segmentation does
// (bytedance/ibot, evaluation/semantic_segmentation/mmcv_custom/register_backbone.py). With patches of 16 pixels, the maps have strides 4, 8, 16 and 32.
type Pyramid struct {
	Blocks [4]int // The blocks, counted from 0, in the order of the levels.
	// Halved makes levels of half the sizes, for patches of 8 pixels: strides 4, 8, 16 and 32 again, as iBOT has it.
	Halved bool
}

// DefaultPyramid returns the pyramid for a transformer of depth blocks. It takes the blocks that end the first third, half, two thirds and the whole,
// ⌈depth·n/12⌉ − 1 for n = 4, 6, 8 and 12: blocks 3, 5, 7 and 11 of 12, and 7, 11, 15 and 23 of 24, as iBOT does.
func DefaultPyramid(depth int) Pyramid {
	return Pyramid{Blocks: [4]int(lo.Map([]int{4, 6, 8, 12}, func(n, _ int) int { return (depth*n+11)/12 - 1 }))}
}

// Levels returns the four maps, the finest first:
//
//	level 0   [4·rows, 4·columns, batch, dim]        two transposed convolutions of 2×2, with batch normalisation and GELU between them
//	level 1   [2·rows, 2·columns, batch, dim]        one transposed convolution of 2×2
//	level 2   [rows, columns, batch, dim]            the tokens
//	level 3   [⌊rows/2⌋, ⌊columns/2⌋, batch, dim]    the maxima of 2×2 tokens
//
// Halved levels are one transposed convolution, the tokens, and the maxima of 2×2 and of 4×4 tokens.
//
// Blocks holds the outputs of the transformer's blocks, not normalised and with the [CLS] token and registers first, [batch, tokens, dim], as [encoder.Tokens]
// has them. Variables live in backbone/fpn1 and backbone/fpn2 under scope and have the dtype of the tokens, but float32 for half precision. If train is true,
// batch normalisation uses the statistics of the whole batch, else the running ones. Levels panics on blocks of another shape and if one is missing.
func (p Pyramid) Levels(scope *model.Scope, blocks []*Node, rows, columns int, train bool) []*Node {
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
	if p.Halved {
		levels[0] = layers.TransposedConvolution(fpn1.At("0"), levels[0], dim)
		levels[2], levels[3] = layers.MaxPool2(levels[2]), layers.MaxPool2(layers.MaxPool2(levels[3]))
		return levels
	}
	x := layers.TransposedConvolution(fpn1.At("0"), levels[0], dim)
	x = activation.Gelu(layers.BatchNorm(fpn1.At("1"), x, 2, layers.Norm{Train: train}, true))
	levels[0] = layers.TransposedConvolution(fpn1.At("3"), x, dim)
	levels[1] = layers.TransposedConvolution(fpn2.At("0"), levels[1], dim)
	levels[3] = layers.MaxPool2(levels[3])
	return levels
}

// Decoder is a segmentation head of mmsegmentation on the levels of a [Pyramid]. Its methods map the levels, [rows, columns, batch, features] with the finest
// first, to logits, [rows, columns, batch, Classes]. Resizing is bilinear, with align_corners=False, but for the neck, which takes the nearest.
//
// Variables live under scope, with the names of mmsegmentation and "/" for ".", and have the dtype of the levels.
type Decoder struct {
	Classes      int     `range:"[2,255]"`
	Channels     int     `range:"[1,)"`  // Channels of each layer, but for the neck.
	NeckChannels int     `range:"[0,)"`  // Channels of the neck of a semantic FPN, which needs at least 1.
	Dropout      float64 `range:"[0,1)"` // Probability that a channel is dropped before the classifier, in training; 0.1 in the recipes.
	Train        bool    // Batch normalisation uses the statistics of the whole batch and moves the running ones, and channels are dropped.
}

// module is a convolution, batch normalisation and ReLU: mmcv's ConvModule, in conv and bn under scope.
func (d Decoder) module(scope *model.Scope, x *Node, size, out int) *Node {
	x = layers.Convolution(scope.At("conv"), x, size, out, 1)
	return layers.ReLU(layers.BatchNorm(scope.At("bn"), x, 2, layers.Norm{Train: d.Train}, true))
}

// logits drops channels and classifies pixels, in conv_seg under scope. Its weight starts as small as in mmsegmentation.
func (d Decoder) logits(scope *model.Scope, x *Node) *Node {
	if d.Train {
		x = layers.DropChannels(scope, x, d.Dropout)
	}
	scope = scope.At("conv_seg")
	return layers.BiasedConvolution(scope, x, 1, d.Classes, initializer.RandomNormalFn(scope, 0.01))
}

// like resizes x, [rows, columns, batch, channels], to the rows and columns of the reference.
func like(reference, x *Node, resize func(maps *Node, height, width int) *Node) *Node {
	return resizedTo(x, reference.Shape().Dim(0), reference.Shape().Dim(1), resize)
}

// resizedTo resizes x, [rows, columns, batch, channels], to [height, width, batch, channels].
func resizedTo(x *Node, height, width int, resize func(maps *Node, height, width int) *Node) *Node {
	rows, columns, batch, channels := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2), x.Shape().Dim(3)
	if rows == height && columns == width {
		return x
	}
	x = resize(Reshape(x, 1, rows, columns, batch*channels), height, width)
	return Reshape(x, height, width, batch, channels)
}

// PoolScales are the bins along each side of the pooled features of [Decoder.UPerNet].
var PoolScales = []int{1, 2, 3, 6}

// UPerNet is the head of Xiao et al., "Unified Perceptual Parsing" (2018), as mmsegmentation's UPerHead: a pyramid of pooled features on the coarsest
// level, a top-down path with additions, and a 3×3 convolution over all levels together. The logits have the resolution of the finest level. Variables are
// in decode_head. In training it needs two images, for the normalisation of one bin. mmsegmentation has 512 channels; for a vision transformer, iBOT's
// recipe takes the length of a token: 384 for ViT-S.
func (d Decoder) UPerNet(scope *model.Scope, levels []*Node) *Node {
	scope = scope.At("decode_head")
	top := len(levels) - 1
	maps := lo.Map(levels[:top], func(level *Node, i int) *Node {
		return d.module(scope.At("lateral_convs").At("%d", i), level, 1, d.Channels)
	})
	maps = append(maps, d.pooled(scope, levels[top]))
	for i := top; i > 0; i-- {
		maps[i-1] = Add(maps[i-1], like(maps[i-1], maps[i], layers.ResizeBilinear))
	}
	for i := range maps[:top] {
		maps[i] = d.module(scope.At("fpn_convs").At("%d", i), maps[i], 3, d.Channels)
	}
	for i := range maps {
		maps[i] = like(maps[0], maps[i], layers.ResizeBilinear)
	}
	return d.logits(scope, d.module(scope.At("fpn_bottleneck"), Concatenate(maps, -1), 3, d.Channels))
}

// pooled joins the coarsest level with its means over bins of four sizes: the pyramid pooling module of Zhao et al., "Pyramid Scene Parsing Network" (2017).
func (d Decoder) pooled(scope *model.Scope, x *Node) *Node {
	joined := []*Node{x}
	for i, scale := range PoolScales {
		bins := resizedTo(x, scale, scale, func(maps *Node, _, _ int) *Node { return layers.AveragePool(maps, scale) })
		bins = d.module(scope.At("psp_modules").At("%d", i).At("1"), bins, 1, d.Channels)
		joined = append(joined, like(x, bins, layers.ResizeBilinear))
	}
	return d.module(scope.At("bottleneck"), Concatenate(joined, -1), 3, d.Channels)
}

// AuxiliaryLevel is the level of the pyramid that the auxiliary head takes, and AuxiliaryWeight the weight of its loss.
const (
	AuxiliaryLevel  = 2
	AuxiliaryWeight = 0.4
)

// Auxiliary is the head that trains beside [Decoder.UPerNet] on level 2 of the pyramid, at its resolution, and is left out of predictions: mmsegmentation's
// FCNHead with one 3×3 convolution, of 256 channels in the recipe, and concat_input=False. Variables are in auxiliary_head.
func (d Decoder) Auxiliary(scope *model.Scope, levels []*Node) *Node {
	scope = scope.At("auxiliary_head")
	return d.logits(scope, d.module(scope.At("convs").At("0"), levels[AuxiliaryLevel], 3, d.Channels))
}

// SemanticFPN is the head of Kirillov et al., "Panoptic Feature Pyramid Networks" (2019), as mmsegmentation's FPN neck and FPNHead. The neck is a top-down
// path with additions, without normalisation and activations. The head brings each level to the resolution of the finest one, by 3×3 convolutions that each
// precede a bilinear upsampling by 2, and adds them. Each level has half the resolution of the one before. Variables are in neck and decode_head.
// mmsegmentation has 256 channels in the neck and 128 in the head; XCiT's recipe takes the length of a token in the neck.
func (d Decoder) SemanticFPN(scope *model.Scope, levels []*Node) *Node {
	head := scope.At("decode_head")
	var sum *Node
	for i, x := range d.neck(scope.At("neck"), levels) {
		scales := head.At("scale_heads").At("%d", i)
		for k := range max(i, 1) {
			x = d.module(scales.At("%d", 2*k), x, 3, d.Channels) // PyTorch counts the upsamplings too.
			if i > 0 {
				x = resized(x, 2)
			}
		}
		if sum == nil {
			sum = x
		} else {
			sum = Add(sum, like(sum, x, layers.ResizeBilinear))
		}
	}
	return d.logits(head, sum)
}

// neck maps levels to maps of the same sizes and NeckChannels channels.
func (d Decoder) neck(scope *model.Scope, levels []*Node) []*Node {
	convolution := func(scope *model.Scope, x *Node, size int) *Node {
		scope = scope.At("conv")
		limit := math.Sqrt(6 / float64(size*size*(x.Shape().Dim(3)+d.NeckChannels))) // Glorot's.
		return layers.BiasedConvolution(scope, x, size, d.NeckChannels, initializer.RandomUniformFn(scope, -limit, limit))
	}
	maps := lo.Map(levels, func(level *Node, i int) *Node { return convolution(scope.At("lateral_convs").At("%d", i), level, 1) })
	for i := len(maps) - 1; i > 0; i-- {
		maps[i-1] = Add(maps[i-1], like(maps[i-1], maps[i], layers.ResizeNearest))
	}
	for i := range maps {
		maps[i] = convolution(scope.At("fpn_convs").At("%d", i), maps[i], 3)
	}
	return maps
}
