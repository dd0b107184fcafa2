package detection

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
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
	levels := []*Node{finest, layers.TransposedConvolution(scope.At("p3").At("up1"), x, dim/2), x, layers.MaxPool2(x)}
	for i, level := range levels {
		at := scope.At("p%d", i+2)
		for j, size := range []int{1, 3} {
			at := at.At("conv%d", j)
			in := level.Shape().Dim(3) // The initial values are PyTorch's own, as detectron2 sets none.
			weight := variable(at, level, "weight", layers.Uniform(at, size*size*in), size, size, in, channels)
			level = layerNorm(at.At("norm"), layers.ConvolutionWith(level, weight, 1))
		}
		levels[i] = level
	}
	coarsest := Slice(levels[3], AxisRange().Stride(2), AxisRange().Stride(2))
	return append(levels, coarsest)
}

// layerNorm normalises the channels of each place of x, [height, width, batch, channels].
func layerNorm(scope *model.Scope, x *Node) *Node {
	channels := x.Shape().Dim(3)
	return layers.LayerNorm(x, variable(scope, x, "weight", Ones, channels), variable(scope, x, "bias", Zeros, channels), layerNormEpsilon)
}

// samplingRatio is the number of samples of a bin along each axis. The recipe's 0 means a number that follows from the box.
const samplingRatio = 2

// finestStride is the stride in pixels of the first level of the pyramid. Each further level doubles it.
const finestStride = 4

// table lists the features of maps one after the other, [places, channels], and for each box the map that it is pooled from: the index of the map's
// first place, the map's size, and the distance between neighbours in the table, all [boxes].
type table struct {
	features                             *Node
	start, height, width, right, beneath *Node
}

// PoolLevels pools boxes, [batch, n, 4], in pixels, to size×size features each, from the levels of a pyramid with the strides 4, 8, 16 and so on, each
// [height, width, batch, channels]. It returns [size, size, batch·n, channels].
//
// A box is pooled from one level, by the rule of Lin et al., Feature Pyramid Networks (2017): level k of the strides 2ᵏ with k = ⌊4 + log₂(√area/224)⌋,
// within those that are there. The pooling is torchvision.ops.roi_align with aligned=True and a sampling ratio of 2. The gradient passes to the features.
func PoolLevels(levels []*Node, boxes *Node, size int) *Node {
	batch, channels := levels[0].Shape().Dim(2), levels[0].Shape().Dim(3)
	boxes.AssertDims(batch, -1, 4)
	boxes = StopGradient(boxes)
	g, n, dtype := boxes.Graph(), boxes.Shape().Dim(1), boxes.DType()

	level := levelOf(boxes, len(levels))
	perLevel := func(values []int32) *Node { return Gather(Const(g, values), InsertAxes(level, -1)) }
	var features []*Node
	var start, height, width, strides []int32
	places := 0
	for i, x := range levels {
		x.AssertDims(-1, -1, batch, channels)
		start, places = append(start, int32(places)), places+x.Shape().Size()/channels
		height, width = append(height, int32(x.Shape().Dim(0))), append(width, int32(x.Shape().Dim(1)))
		strides = append(strides, finestStride<<i)
		features = append(features, Reshape(x, -1, channels))
	}
	image := Iota(g, shapes.Make(dtypes.Int32, batch, n), 0)
	flat := func(x *Node) *Node { return Reshape(x, batch*n) }
	from := table{
		features: Concatenate(features, 0),
		start:    flat(Add(perLevel(start), image)),
		height:   flat(perLevel(height)),
		width:    flat(perLevel(width)),
		right:    flat(AddScalar(ZerosLike(image), batch)),
		beneath:  flat(MulScalar(perLevel(width), batch)),
	}
	scaled := Div(boxes, ConvertDType(InsertAxes(perLevel(strides), -1), dtype))
	return from.pool(Reshape(scaled, batch*n, 4), size)
}

// levelOf returns the index of the level of each box, [batch, n]. The logarithm gets the 1e-6 of mmdetection's SingleRoIExtractor.
func levelOf(boxes *Node, levels int) *Node {
	const finest = 56 // The side of the squares that are twice the size for the first level.
	side := Sqrt(MaxScalar(area(boxes), 0))
	level := Floor(MulScalar(Log(AddScalar(DivScalar(side, finest), 1e-6)), 1/math.Ln2))
	return ConvertDType(StopGradient(MinScalar(MaxScalar(level, 0), levels-1)), dtypes.Int32)
}

// pool aligns boxes, [n, 4], in places of their maps, and returns [size, size, n, channels].
//
// It is one gather of the four neighbours of each sample and a weighted sum. Products with interpolation matrices, as in [layers.RoIAlign], take five
// times as long here, because a box then meets every place of every level.
func (t table) pool(boxes *Node, size int) *Node {
	n := boxes.Shape().Dim(0)
	x1, y1, x2, y2 := sides(boxes)
	rows, rowWeights := neighbours(y1, y2, t.height, size)
	columns, columnWeights := neighbours(x1, x2, t.width, size)

	// The axes are rows and columns of the bins, box, samples of the bin, neighbours of the sample.
	byRow := func(x *Node) *Node { return Reshape(x, size, 1, n, 2*samplingRatio, 1) }
	byColumn := func(x *Node) *Node { return Reshape(x, 1, size, n, 1, 2*samplingRatio) }
	perBox := func(x *Node) *Node { return Reshape(x, 1, 1, n, 1, 1) }
	at := Add(Mul(byRow(rows), perBox(t.beneath)), Mul(byColumn(columns), perBox(t.right)))
	at = Reshape(Add(at, perBox(t.start)), size, size, n, -1, 1)
	weights := Reshape(Mul(byRow(rowWeights), byColumn(columnWeights)), size, size, n, -1, 1)

	values := Gather(t.features, at)
	if !values.DType().IsFloat() {
		values = ConvertDType(values, weights.DType())
	}
	return ReduceSum(Mul(values, ConvertDType(weights, values.DType())), 3)
}

// neighbours returns, along one axis, the two places around each sample of each bin and their weights, [size, n, samples·2], for boxes from low to high on
// lines of extent places, all [n]. Samples beyond the last place take its value; samples more than one place beyond the line count 0.
func neighbours(low, high, extent *Node, size int) (places, weights *Node) {
	g, dtype, n := low.Graph(), low.DType(), low.Shape().Dim(0)
	const samples = samplingRatio
	index := Iota(g, shapes.Make(dtype, size*samples, 1), 0)
	step := DivScalar(Sub(high, low), size*samples)
	// Place i lies at i + 1/2 from the start of the line.
	at := AddScalar(Add(InsertAxes(low, 0), Mul(AddScalar(index, 0.5), InsertAxes(step, 0))), -0.5)
	length := InsertAxes(ConvertDType(extent, dtype), 0)
	counts := LogicalAnd(GreaterOrEqual(at, Scalar(g, dtype, -1)), LessOrEqual(at, length))

	last := AddScalar(length, -1)
	at = Min(MaxScalar(at, 0), last)
	first := Floor(at)
	share := Sub(at, first)
	pair := Stack([]*Node{first, Min(AddScalar(first, 1), last)}, -1)
	weight := Stack([]*Node{OneMinus(share), share}, -1)
	weight = Mul(weight, InsertAxes(DivScalar(ConvertDType(counts, dtype), samples), -1))
	arranged := func(x *Node) *Node { // From [size·samples, n, 2].
		return Reshape(TransposeAllAxes(Reshape(x, size, samples, n, 2), 0, 2, 1, 3), size, n, samples*2)
	}
	return ConvertDType(StopGradient(arranged(pair)), dtypes.Int32), StopGradient(arranged(weight))
}
