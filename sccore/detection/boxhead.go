package detection

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

const (
	boxSize       = 7     // Bins of the features of a box along each axis.
	boxLossWeight = 10    // Of the GIoU loss.
	classInit     = 0.01  // Deviation of the initial weights of the classes.
	codeInit      = 0.001 // Deviation of the initial weights of the codes.
)

// boxOutput is the output of a box head for n boxes an image.
type boxOutput struct {
	logits *Node // [batch, n, Classes + 1]. The last class is the background.
	codes  *Node // Codes of the box of each class, [batch, n, Classes, 4].
}

// boxHead classifies boxes, [batch, n, 4], and refines them: RoI-Align, convolutions with batch normalisation and ReLU, and a dense layer with ReLU
// (mmdetection's ConvFCBBoxHead with norm_cfg). Valid, [batch, n], marks the boxes that count in the statistics of a batch; nil stands for the running ones.
func (c Config) boxHead(scope *model.Scope, levels []*Node, boxes, valid *Node) boxOutput {
	batch, n := boxes.Shape().Dim(0), boxes.Shape().Dim(1)
	x := PoolLevels(levels, boxes, boxSize)
	if valid != nil {
		valid = Reshape(valid, batch*n)
	}
	for i := range c.Convolutions {
		at := scope.At("conv%d", i)
		x = layers.ReLU(batchNorm(at.At("norm"), layers.Convolution(at, x, 3, c.Channels, 1), valid))
	}
	x = Reshape(TransposeAllAxes(x, 2, 0, 1, 3), batch*n, -1)
	fc, cls, reg := scope.At("fc"), scope.At("cls"), scope.At("reg")
	x = layers.ReLU(dense(fc, x, c.Hidden, uniform(fc, math.Sqrt(6/float64(x.Shape().Dim(1)+c.Hidden)))))
	return boxOutput{
		logits: Reshape(dense(cls, x, c.Classes+1, normal(cls, classInit)), batch, n, c.Classes+1),
		codes:  Reshape(dense(reg, x, 4*c.Classes, normal(reg, codeInit)), batch, n, c.Classes, 4),
	}
}

// losses returns the mean cross-entropy over the valid boxes, and the GIoU loss of the positive ones, divided by the number of valid ones. Labels, [batch,
// n], are the classes of positive boxes. Positive boxes lie in the first places.
func (c Config) losses(out boxOutput, coder Coder, boxes, targets, labels *Node, s Samples, positives int) (class, box *Node) {
	dtype := boxes.DType()
	batch := labels.Shape().Dim(0)
	background := Scalar(labels.Graph(), labels.DType(), c.Classes)
	labels = Where(s.Positive, labels, background)
	logs := LogSoftmax(ConvertDType(out.logits, dtype), -1)
	count := number(s.Valid, dtype)
	class = Div(masked(Neg(ofClass(logs, labels)), s.Valid), count)

	first := func(x *Node) *Node { return SliceAxis(x, 1, AxisRange(0, positives)) }
	labels = MinScalar(first(labels), c.Classes-1)
	codes := ConvertDType(boxesOfClass(first(out.codes), labels), dtype)
	predicted := coder.Decode(first(boxes), codes)
	predicted.AssertDims(batch, positives, 4)
	loss := masked(OneMinus(GIoU(predicted, first(targets))), first(s.Positive))
	return class, MulScalar(Div(loss, count), boxLossWeight)
}

// refine returns the boxes that the codes of the classes labels, [batch, n], describe, clipped to their images. No gradient passes.
func refine(out boxOutput, coder Coder, boxes, labels, sizes *Node) *Node {
	codes := ConvertDType(boxesOfClass(StopGradient(out.codes), labels), boxes.DType())
	return StopGradient(ClipBoxes(coder.Decode(boxes, codes), sizes))
}

// likeliest returns the class with the highest logit except for the background, [batch, n].
func (o boxOutput) likeliest() *Node {
	classes := o.logits.Shape().Dim(2) - 1
	return ArgMax(SliceAxis(StopGradient(o.logits), 2, AxisRange(0, classes)), 2)
}

// ofClass returns the value of the class labels, [...], among values, [..., classes], as [...].
func ofClass(values, labels *Node) *Node {
	classes := Iota(values.Graph(), shapes.Make(dtypes.Int32, values.Shape().Dimensions...), -1)
	chosen := Equal(BroadcastToDims(InsertAxes(ConvertDType(labels, dtypes.Int32), -1), values.Shape().Dimensions...), classes)
	return ReduceSum(Where(chosen, values, ZerosLike(values)), -1)
}

// boxesOfClass returns the four values of the class labels, [batch, n], among values, [batch, n, classes, 4].
func boxesOfClass(values, labels *Node) *Node {
	batch, n, classes := values.Shape().Dim(0), values.Shape().Dim(1), values.Shape().Dim(2)
	x := take(Reshape(values, batch*n, classes, 4), Reshape(labels, batch*n, 1))
	return Reshape(x, batch, n, 4)
}
