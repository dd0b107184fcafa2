package detection

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// MaskSize is the side of predicted masks.
const MaskSize = 28

// maskHead returns the logits of the masks of boxes, [batch, n, 4], for each class, [MaskSize, MaskSize, batch·n, Classes]: RoI-Align to half the size,
// convolutions with ReLU, and a transposed convolution with ReLU (He et al., Mask R-CNN, 2017; mmdetection's FCNMaskHead).
func (c Config) maskHead(scope *model.Scope, levels []*Node, boxes *Node) *Node {
	x := PoolLevels(levels, boxes, MaskSize/2)
	for i := range c.Convolutions {
		at := scope.At("conv%d", i)
		x = layers.ReLU(convolution(at, x, 3, c.Channels, normal(at, kaiming(3, c.Channels))))
	}
	up, cls := scope.At("up"), scope.At("cls")
	in := x.Shape().Dim(3)
	weight := variable(up, x, "weight", normal(up, kaiming(2, in)), 2, 2, c.Channels, in)
	x = layers.ReLU(layers.TransposedConvolutionWith(x, weight, variable(up, x, "bias", Zeros, c.Channels)))
	return convolution(cls, x, 1, c.Classes, normal(cls, kaiming(1, c.Classes)))
}

// maskLoss is the mean binary cross-entropy over the pixels of the masks of positive boxes for their own class. Boxes and positive are [batch, n, 4] and
// [batch, n]; object is the index of the object of each box, [batch, n].
func maskLoss(logits, boxes, positive, object *Node, objects Objects) *Node {
	dtype := boxes.DType()
	batch, n := object.Shape().Dim(0), object.Shape().Dim(1)
	labels := MaxScalar(take(objects.Labels, object), 0)
	each := func(x *Node) *Node { return BroadcastToDims(Reshape(x, 1, 1, batch*n), MaskSize, MaskSize, batch*n) }
	own := ofClass(ConvertDType(logits, dtype), each(labels))
	loss := masked(binaryCrossEntropy(own, maskTargets(boxes, object, objects)), each(positive))
	return DivScalar(Div(loss, number(positive, dtype)), MaskSize*MaskSize)
}

// maskTargets crops boxes, [batch, n, 4], from the masks of their objects, [batch, n], to [MaskSize, MaskSize, batch·n]: RoI-Align of the mask, at least 1/2
// (mmdetection's BitmapMasks.crop_and_resize, but with two samples a bin along each axis instead of a number that follows from the box).
func maskTargets(boxes, object *Node, objects Objects) *Node {
	g, dtype := boxes.Graph(), boxes.DType()
	batch, n, count := boxes.Shape().Dim(0), boxes.Shape().Dim(1), objects.Masks.Shape().Dim(1)
	height, width := objects.Masks.Shape().Dim(2), objects.Masks.Shape().Dim(3)
	objects.Frames.AssertDims(batch, count, 4)

	// In pixels of the mask.
	left, top, right, bottom := sides(take(ConvertDType(objects.Frames, dtype), object))
	x1, y1, x2, y2 := sides(StopGradient(boxes))
	horizontally := MulScalar(Inverse(MaxScalar(Sub(right, left), smallest)), width)
	vertically := MulScalar(Inverse(MaxScalar(Sub(bottom, top), smallest)), height)
	scaled := Stack([]*Node{
		Mul(Sub(x1, left), horizontally), Mul(Sub(y1, top), vertically), Mul(Sub(x2, left), horizontally), Mul(Sub(y2, top), vertically),
	}, -1)

	image := Iota(g, shapes.Make(dtypes.Int32, batch, n), 0)
	each := func(value int) *Node { return Reshape(AddScalar(ZerosLike(image), value), batch*n) }
	from := table{
		features: Reshape(objects.Masks, -1, 1),
		start:    Reshape(MulScalar(Add(MulScalar(image, count), object), height*width), batch*n),
		height:   each(height), width: each(width), right: each(1), beneath: each(width),
	}
	cover := from.pool(Reshape(scaled, batch*n, 4), MaskSize)
	return asNumbers(GreaterOrEqual(Squeeze(cover, -1), Scalar(g, dtype, 0.5)), dtype)
}
