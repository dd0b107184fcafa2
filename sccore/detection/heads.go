package detection

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/sccore/layers"
)

// variable returns the value of a variable as a node.
func variable(scope *model.Scope, x *Node, name string, initial model.VariableInitializer, dims ...int) *Node {
	return scope.WithInitializer(initial).VariableWithShape(name, shapes.Make(x.DType(), dims...)).NodeValue(x)
}

// dense is a dense layer with a bias, which starts at 0. Its weight starts with the initial values.
func dense(scope *model.Scope, x *Node, out int, initial model.VariableInitializer) *Node {
	y := MatMul(x, variable(scope, x, "weight", initial, x.Shape().Dim(1), out))
	return Add(y, InsertAxes(variable(scope, x, "bias", Zeros, out), 0))
}

// binaryCrossEntropy returns the loss of each logit for a target of 0 or 1. Its slope at a logit of exactly 0 is 1/2 − target, as it should be: the halves of
// x + |x| keep it so.
func binaryCrossEntropy(logits, targets *Node) *Node {
	size := Abs(logits)
	softplus := Add(MulScalar(Add(logits, size), 0.5), Log1P(Exp(Neg(size))))
	return Sub(softplus, Mul(logits, targets))
}

// smoothL1 returns x²/(2·beta) where |x| is below beta, else |x| − beta/2 (Girshick, Fast R-CNN, 2015).
func smoothL1(x *Node, beta float64) *Node {
	size := Abs(x)
	return Where(LessThan(size, Scalar(x.Graph(), x.DType(), beta)), MulScalar(Square(x), 0.5/beta), AddScalar(size, -0.5*beta))
}

// asNumbers returns a mask as zeros and ones. No gradient passes; the search for paths of the gradient would follow the mask to the scores behind it.
func asNumbers(mask *Node, dtype dtypes.DType) *Node { return StopGradient(ConvertDType(mask, dtype)) }

// number counts what mask marks, and is at least 1.
func number(mask *Node, dtype dtypes.DType) *Node {
	return StopGradient(MaxScalar(ReduceAllSum(asNumbers(mask, dtype)), 1))
}

// batchNorm normalises each channel of x, [height, width, boxes, channels], as [layers.BatchNorm] does, but takes the statistics of a batch over the valid
// boxes only, [boxes], because the others are padding. If valid is nil, it normalises by the running statistics.
func batchNorm(scope *model.Scope, x, valid *Node) *Node {
	if valid == nil {
		return layers.BatchNorm(scope, x, 2, layers.Norm{}, true)
	}
	channels := x.Shape().Dim(3)
	weight, bias := variable(scope, x, "weight", Ones, channels), variable(scope, x, "bias", Zeros, channels)
	runningMean := scope.WithInitializer(Zeros).VariableWithShape("running_mean", weight.Shape()).SetTrainable(false)
	runningVar := scope.WithInitializer(Ones).VariableWithShape("running_var", weight.Shape()).SetTrainable(false)
	counts := asNumbers(valid, x.DType())
	count := MaxScalar(MulScalar(ReduceAllSum(counts), x.Shape().Dim(0)*x.Shape().Dim(1)), 1)
	counts = Reshape(counts, 1, 1, -1, 1)
	mean := Div(ReduceSum(Mul(x, counts), 0, 1, 2), count)
	// The derivative of the variance by the mean is 0, so no gradient needs to pass there.
	centred := Sub(x, ExpandLeftToRank(StopGradient(mean), 4))
	variance := Div(ReduceSum(Mul(Square(centred), counts), 0, 1, 2), count)

	move := func(running *model.Variable, to *Node) {
		old := running.NodeValue(x)
		running.SetNodeValue(Add(MulScalar(old, 1-layers.BatchNormMomentum), MulScalar(StopGradient(to), layers.BatchNormMomentum)))
	}
	move(runningMean, mean)
	move(runningVar, Mul(variance, Div(count, MaxScalar(AddScalar(count, -1), 1))))
	scale := Div(weight, Sqrt(AddScalar(variance, layers.BatchNormEpsilon)))
	shift := Sub(bias, Mul(mean, scale))
	return Add(Mul(x, ExpandLeftToRank(scale, 4)), ExpandLeftToRank(shift, 4))
}

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
	limit := math.Sqrt(6 / float64(x.Shape().Dim(1)+c.Hidden))
	x = layers.ReLU(dense(fc, x, c.Hidden, initializer.RandomUniformFn(fc, -limit, limit)))
	return boxOutput{
		logits: Reshape(dense(cls, x, c.Classes+1, initializer.RandomNormalFn(cls, classInit)), batch, n, c.Classes+1),
		codes:  Reshape(dense(reg, x, 4*c.Classes, initializer.RandomNormalFn(reg, codeInit)), batch, n, c.Classes, 4),
	}
}

// losses returns the mean cross-entropy over the valid boxes, and the GIoU loss of the positive ones, divided by the number of valid ones. Labels, [batch,
// n], are the classes of positive boxes. Positive boxes lie in the first places.
func (c Config) losses(out boxOutput, coder Coder, boxes, targets, labels *Node, s Samples, positives int) (class, box *Node) {
	dtype := boxes.DType()
	background := Scalar(labels.Graph(), labels.DType(), c.Classes)
	labels = Where(s.Positive, labels, background)
	logs := LogSoftmax(ConvertDType(out.logits, dtype), -1)
	count := number(s.Valid, dtype)
	class = Div(MaskedReduceAllSum(Neg(ofClass(logs, labels)), s.Valid), count)

	first := func(x *Node) *Node { return SliceAxis(x, 1, AxisRange(0, positives)) }
	labels = MinScalar(first(labels), c.Classes-1)
	codes := ConvertDType(boxesOfClass(first(out.codes), labels), dtype)
	predicted := coder.Decode(first(boxes), codes)
	loss := MaskedReduceAllSum(OneMinus(GIoU(predicted, first(targets))), first(s.Positive))
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

// MaskSize is the side of predicted masks.
const MaskSize = 28

// maskHead returns the logits of the masks of boxes, [batch, n, 4], for each class, [MaskSize, MaskSize, batch·n, Classes]: RoI-Align to half the size,
// convolutions with ReLU, and a transposed convolution with ReLU (He et al., Mask R-CNN, 2017; mmdetection's FCNMaskHead).
func (c Config) maskHead(scope *model.Scope, levels []*Node, boxes *Node) *Node {
	x := PoolLevels(levels, boxes, MaskSize/2)
	for i := range c.Convolutions {
		at := scope.At("conv%d", i)
		x = layers.ReLU(layers.BiasedConvolution(at, x, 3, c.Channels, layers.He(at, 3, c.Channels)))
	}
	up, cls := scope.At("up"), scope.At("cls")
	in := x.Shape().Dim(3)
	weight := variable(up, x, "weight", layers.He(up, 2, in), 2, 2, c.Channels, in)
	x = layers.ReLU(layers.TransposedConvolutionWith(x, weight, variable(up, x, "bias", Zeros, c.Channels)))
	return layers.BiasedConvolution(cls, x, 1, c.Classes, layers.He(cls, 1, c.Classes))
}

// maskLoss is the mean binary cross-entropy over the pixels of the masks of positive boxes for their own class. Boxes and positive are [batch, n, 4] and
// [batch, n]; object is the index of the object of each box, [batch, n].
func maskLoss(logits, boxes, positive, object *Node, objects Objects) *Node {
	dtype := boxes.DType()
	batch, n := object.Shape().Dim(0), object.Shape().Dim(1)
	labels := MaxScalar(take(objects.Labels, object), 0)
	each := func(x *Node) *Node { return BroadcastToDims(Reshape(x, 1, 1, batch*n), MaskSize, MaskSize, batch*n) }
	own := ofClass(ConvertDType(logits, dtype), each(labels))
	loss := MaskedReduceAllSum(binaryCrossEntropy(own, maskTargets(boxes, object, objects)), each(positive))
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

// maskThreshold is the least probability of a pixel of an object.
const maskThreshold = 0.5

// Paste returns the pixels of an object in an image of height × width, in reading order, from its mask, [size·size] probabilities, and its box x1, y1, x2,
// y2 in pixels of that image. A pixel belongs to the object if the mask, interpolated bilinearly at the pixel's centre and 0 outside, is at least 1/2, as
// in detectron2's paste_masks_in_image on the CPU. It computes in float32, as detectron2 does. A box without area, or with a NaN, has no pixels.
func Paste(mask []float32, size int, box [4]float32, height, width int) []bool {
	pixels := make([]bool, height*width)
	if !(box[2] > box[0] && box[3] > box[1]) {
		return pixels
	}

	// Detectron2 looks at the pixels up to one beyond the box.
	first := func(low float32) int { return int(max(math.Floor(float64(low))-1, 0)) }
	end := func(high float32, extent int) int { return int(min(math.Ceil(float64(high))+1, float64(extent))) }
	columns := make([]place, 0, width)
	left := min(first(box[0]), width)
	for x := left; x < end(box[2], width); x++ {
		columns = append(columns, placeOf(x, box[0], box[2], size))
	}
	at := func(row, column int) float32 {
		if row < 0 || row >= size || column < 0 || column >= size {
			return 0
		}
		return mask[row*size+column]
	}
	for y := first(box[1]); y < end(box[3], height); y++ {
		row := placeOf(y, box[1], box[3], size)
		for i, column := range columns {
			value := at(row.index, column.index)*(1-column.share)*(1-row.share) + at(row.index, column.index+1)*column.share*(1-row.share) +
				at(row.index+1, column.index)*(1-column.share)*row.share + at(row.index+1, column.index+1)*column.share*row.share
			pixels[y*width+left+i] = value >= maskThreshold
		}
	}
	return pixels
}

// place is where a pixel lies on an axis of a mask: between the value at index and the next one, by share.
type place struct {
	index int
	share float32
}

// placeOf returns the place of the centre of a pixel in a box from low to high.
func placeOf(pixel int, low, high float32, size int) place {
	// The detour by coordinates from -1 to 1 rounds as torch.nn.functional.grid_sample with align_corners=False.
	normalised := (float32(pixel)+0.5-low)/(high-low)*2 - 1
	at := ((normalised+1)*float32(size) - 1) / 2
	index := math.Floor(float64(at))
	index = max(min(index, float64(size)), -2) // All further ones are outside too.
	return place{int(index), at - float32(index)}
}
