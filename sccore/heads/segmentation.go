package heads

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/settings"
)

// The kinds of segmentation heads.
const (
	Linear = "linear" // One 1×1 convolution.
	FCN    = "fcn"    // Three blocks that each double the resolution.
)

// Segmentation maps patch features to classes (paper, appendix "Transfer Learning on Semantic Segmentation", "Network architecture").
// [Linear] is a 1×1 convolution. [FCN] has three blocks of two 1×1 convolutions, a 3×3 convolution and a bilinear upsampling by 2, with ReLU
// after each convolution, and ends with a 1×1 convolution to the classes. The paper gives neither the number of channels nor the layers after
// the blocks.
type Segmentation struct {
	Kind    string `oneof:"linear|fcn"`
	Classes int    `range:"[2,255]"`
	Width   int    // Channels in the blocks of the FCN. The linear head ignores it.
}

// Upsampling is the factor from the resolution of patches to the resolution of the training loss. It is the FCN's own factor and serves both heads.
const Upsampling = 8

// Rules returns an error if the FCN has no width or one whose largest weight, 3×3 by Width by Width, is too large; see [settings.Check].
func (h Segmentation) Rules() error {
	if h.Kind == Linear {
		return nil
	}
	return settings.Between("width", h.Width, 1, 4096)
}

// Logits maps features, [batch, rows, columns, features], to [s·rows, s·columns, batch, Classes], where s is 1 for the linear head and 8 for
// the FCN. Variables live under scope and have the dtype of the features.
func (h Segmentation) Logits(scope *model.Scope, features *Node) *Node {
	features.AssertRank(4)
	x := TransposeAllAxes(features, 1, 2, 0, 3)
	if h.Kind == Linear {
		return h.classes(scope, x)
	}
	return h.classes(scope.At("classes"), h.blocks(scope, x))
}

// Loss is the mean cross-entropy between the logits, resized bilinearly to 8 times the resolution of the patches, and integer labels,
// [8·rows, 8·columns, batch]. Pixels whose label is not a class, such as [datasets.Ignore], do not count. If no pixel counts, the loss is 0.
func (h Segmentation) Loss(logits, labels *Node) *Node {
	if h.Kind == Linear {
		logits = resized(logits, Upsampling)
	}
	rows, columns, batch := logits.Shape().Dim(0), logits.Shape().Dim(1), logits.Shape().Dim(2)
	labels.AssertDims(rows, columns, batch)
	sum, count := crossEntropy(logits, labels)
	return Div(sum, MaxScalar(count, 1))
}

// blocks applies the three blocks of the FCN. It maps [rows, columns, batch, features] to [8·rows, 8·columns, batch, Width].
func (h Segmentation) blocks(scope *model.Scope, x *Node) *Node {
	for i := range 3 {
		block := scope.At("block%d", i)
		for j, size := range []int{1, 1, 3} {
			x = layers.ReLU(biased(block.At("conv%d", j), x, size, h.Width))
		}
		x = resized(x, 2)
	}
	return x
}

// resized upsamples x, [rows, columns, batch, channels], bilinearly.
func resized(x *Node, by int) *Node {
	return resizedTo(x, by*x.Shape().Dim(0), by*x.Shape().Dim(1), layers.ResizeBilinear)
}

// classes is the layer that returns the logits. Its weight is initialised as in PyTorch's convolutions, so that the first logits are small.
func (h Segmentation) classes(scope *model.Scope, x *Node) *Node {
	return initialised(scope, x, 1, h.Classes, asTorchLinear(scope, x.Shape().Dim(-1)))
}

// biased is a convolution with a bias, which starts at 0.
func biased(scope *model.Scope, x *Node, size, out int) *Node {
	y := layers.Convolution(scope, x, size, out, 1)
	bias := scope.WithInitializer(Zeros).VariableWithShape("bias", shapes.Make(x.DType(), out)).NodeValue(x)
	return Add(y, ExpandLeftToRank(bias, 4))
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
	classes := Iota(logits.Graph(), shapes.Make(dtypes.Int32, 1, 1, 1, logits.Shape().Dim(3)), 3)
	chosen := ConvertDType(Equal(InsertAxes(ConvertDType(labels, dtypes.Int32), -1), classes), logits.DType())
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
			line[i] = low[i] + share*(high[i]-low[i])
		}
		for _, tap := range across {
			low, high, share := line[tap.Low*classes:][:classes], line[tap.High*classes:][:classes], float32(tap.Share)
			best, largest := 0, low[0]+share*(high[0]-low[0])
			for class := 1; class < classes; class++ {
				if value := low[class] + share*(high[class]-low[class]); value > largest {
					best, largest = class, value
				}
			}
			out = append(out, uint8(best))
		}
	}
	return out
}
