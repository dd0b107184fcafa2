package evaluation

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/sccore/encoder"
)

// The heads of [SegmentationHead].
const (
	LinearHead = "linear" // One 1×1 convolution.
	FCNHead    = "fcn"    // Three blocks that each double the resolution.
)

// SegmentationHead maps the features of patches to classes (paper, appendix "Transfer Learning on Semantic Segmentation", "Network
// architecture"). [LinearHead] is a 1×1 convolution. [FCNHead] is three blocks of two 1×1 convolutions, a 3×3 one and a bilinear upsampling
// by 2, with ReLU after each convolution, and a 1×1 convolution to the classes behind them: the paper names neither the number of channels
// nor what follows the blocks.
type SegmentationHead struct {
	Kind    string
	Classes int
	Width   int // Channels in the blocks of the FCN; the linear head has none.
}

// upsampling is how much finer than the patches a head's training loss is taken: the FCN's own resolution, for both.
const upsampling = 8

// Check returns an error that names what is wrong with the head.
func (h SegmentationHead) Check() error {
	switch {
	case h.Kind != LinearHead && h.Kind != FCNHead:
		return fmt.Errorf("segmentation head %q is neither %s nor %s", h.Kind, LinearHead, FCNHead)
	case h.Classes < 2 || h.Classes > 255:
		return fmt.Errorf("segmentation head of %d classes, want 2 to 255", h.Classes)
	case h.Kind == FCNHead && h.Width < 1:
		return fmt.Errorf("FCN of width %d, want at least 1", h.Width)
	}
	return nil
}

// Logits maps features, [batch, rows, columns, features], to [s·rows, s·columns, batch, Classes], s being 1 for the linear head and 8 for the
// FCN. Variables live under scope and have the features' dtype. It panics where [SegmentationHead.Check] finds fault.
func (h SegmentationHead) Logits(scope *model.Scope, features *Node) *Node {
	if err := h.Check(); err != nil {
		panic(err)
	}
	features.AssertRank(4)
	x := TransposeAllAxes(features, 1, 2, 0, 3)
	if h.Kind == LinearHead {
		return h.classes(scope, x)
	}
	for i := range 3 {
		block := scope.At("block%d", i)
		for j, size := range []int{1, 1, 3} {
			x = biased(block.At("conv%d", j), x, size, h.Width)
			x = Max(x, ScalarZero(x.Graph(), x.DType()))
		}
		x = resized(x, 2)
	}
	return h.classes(scope.At("classes"), x)
}

// classes is the layer that ends in logits. Its weight starts as PyTorch's convolutions do, so that the first logits are small.
func (h SegmentationHead) classes(scope *model.Scope, x *Node) *Node {
	in := x.Shape().Dim(-1)
	limit := 1 / math.Sqrt(float64(in))
	scope.WithInitializer(initializer.RandomUniformFn(scope, -limit, limit)).VariableWithShape("weight", shapes.Make(x.DType(), 1, 1, in, h.Classes))
	return biased(scope, x, 1, h.Classes)
}

// biased is a convolution with a bias, which is 0 at first.
func biased(scope *model.Scope, x *Node, size, out int) *Node {
	y := encoder.Convolution(scope, x, size, out, 1)
	bias := scope.WithInitializer(Zeros).VariableWithShape("bias", shapes.Make(x.DType(), out)).NodeValue(x)
	return Add(y, ExpandLeftToRank(bias, 4))
}

// resized upsamples x, [rows, columns, batch, channels], bilinearly.
func resized(x *Node, by int) *Node {
	rows, columns, batch, channels := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2), x.Shape().Dim(3)
	x = resizeBilinear(Reshape(x, 1, rows, columns, batch*channels), by*rows, by*columns)
	return Reshape(x, by*rows, by*columns, batch, channels)
}

// Loss is the mean cross-entropy of logits, resized bilinearly to 8 times the patches' resolution, with labels, [8·rows, 8·columns, batch] of
// integers, over the pixels whose label is a class: [datasets.Ignore] is none. It is 0 where no pixel has one.
func (h SegmentationHead) Loss(logits, labels *Node) *Node {
	if h.Kind == LinearHead {
		logits = resized(logits, upsampling)
	}
	rows, columns, batch := logits.Shape().Dim(0), logits.Shape().Dim(1), logits.Shape().Dim(2)
	labels.AssertDims(rows, columns, batch)
	classes := Iota(logits.Graph(), shapes.Make(dtypes.Int32, 1, 1, 1, h.Classes), 3)
	chosen := ConvertDType(Equal(InsertAxes(ConvertDType(labels, dtypes.Int32), -1), classes), logits.DType())
	sum := Neg(ReduceAllSum(Mul(LogSoftmax(logits), chosen)))
	return Div(sum, MaxScalar(ReduceAllSum(chosen), 1))
}
