package layers

import (
	"math"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// ResizeBilinear resizes maps, [N, rows, columns, D], to [N, height, width, D], as torch.nn.functional.interpolate does with align_corners=False and without
// antialiasing. It uses products with constant matrices, because windowed gathers are wrong on the Go engine.
func ResizeBilinear(maps *Node, height, width int) *Node {
	return resample(maps, height, width, BilinearWeights)
}

// ResizeNearest resizes maps, [N, rows, columns, D], to [N, height, width, D] by repeating or leaving out rows and columns, as
// torch.nn.functional.interpolate does with mode="nearest".
func ResizeNearest(maps *Node, height, width int) *Node {
	return resample(maps, height, width, nearestWeights)
}

// resample multiplies rows and columns of maps, [N, rows, columns, D], by the matrices of weights, a function that returns the weights, [to, from], of
// one axis. The result is [N, height, width, D].
func resample(maps *Node, height, width int, weights func(from, to int) []float64) *Node {
	maps.AssertRank(4)
	matrix := func(from, to int) *Node {
		return ConvertDType(ConstTensor(maps.Graph(), tensors.FromFlatDataAndDimensions(weights(from, to), to, from)), maps.DType())
	}
	maps = Einsum("hr,nrcd->nhcd", matrix(maps.Shape().Dim(1), height), maps)
	return Einsum("wc,nhcd->nhwd", matrix(maps.Shape().Dim(2), width), maps)
}

// BilinearWeights returns the weights, [to, from], of a bilinear resize of one axis.
func BilinearWeights(from, to int) []float64 {
	weights := make([]float64, to*from)
	for i, tap := range BilinearTaps(from, to) {
		weights[i*from+tap.Low] += 1 - tap.Share
		weights[i*from+tap.High] += tap.Share
	}
	return weights
}

// Tap is how one sample of a resized line is computed: between two samples of the old line, Low and High, at a share of the way from the first to the second.
type Tap struct {
	Low, High int     // Equal if Share is 0.
	Share     float64 // In [0, 1).
}

// BilinearTaps returns how a line of samples is resized bilinearly, as torch.nn.functional.interpolate does with align_corners=False and without antialiasing.
func BilinearTaps(from, to int) []Tap {
	taps := make([]Tap, to)
	for i := range taps {
		// Positions beyond the centres of the border samples take the border's value.
		at := min(max((float64(i)+0.5)*float64(from)/float64(to)-0.5, 0), float64(from-1))
		low := int(math.Floor(at))
		if taps[i] = (Tap{low, low, at - float64(low)}); taps[i].Share > 0 {
			taps[i].High++
		}
	}
	return taps
}

// nearestWeights returns the weights, [to, from], of a nearest-neighbour resize of one axis. The positions are rounded in float32, as in PyTorch.
func nearestWeights(from, to int) []float64 {
	weights := make([]float64, to*from)
	for i := range to {
		at := int(float32(i) * (float32(from) / float32(to)))
		weights[i*from+min(at, from-1)] = 1
	}
	return weights
}

// MaxPool2 maps x, [height, width, batch, channels], to the maxima of its windows of 2×2 pixels, [⌊height/2⌋, ⌊width/2⌋, batch, channels]. It drops a
// last odd row or column. The gradient of equal maxima goes to the first of them in reading order. Both are as in torch.nn.MaxPool2d(2).
func MaxPool2(x *Node) *Node {
	x.AssertRank(4)
	for _, axis := range []int{1, 0} { // Columns first, for the reading order.
		even, odd := evenAndOdd(SliceAxis(x, axis, AxisRange(0, x.Shape().Dim(axis)/2*2)), axis)
		x = Max(even, odd)
	}
	return x
}

// AveragePool maps maps, [N, rows, columns, D], to the means of size×size bins, [N, size, size, D], as torch.nn.AdaptiveAvgPool2d(size) does. Bins
// overlap where size does not divide rows or columns.
func AveragePool(maps *Node, size int) *Node { return resample(maps, size, size, averageWeights) }

// averageWeights returns the weights, [to, from], of the means of the bins of one axis.
func averageWeights(from, to int) []float64 {
	weights := make([]float64, to*from)
	for i := range to {
		first, end := i*from/to, ((i+1)*from+to-1)/to
		for j := first; j < end; j++ {
			weights[i*from+j] = 1 / float64(end-first)
		}
	}
	return weights
}

// RoIAlign pools one box of each feature map to OutputSize×OutputSize features (He et al., Mask R-CNN, 2017), as torchvision.ops.roi_align
// does with aligned=True and a sampling_ratio of 0: each bin is the mean of bilinear samples, along each axis as many as its size in features, rounded
// up. A box without width or height has no samples, and its features are 0.
//
// The paper aligns two views with it ("Cross-view alignment"). Given each view's box of the overlap, from [views.Overlap], the pooled
// features of both views belong to the same places in the image.
type RoIAlign struct {
	OutputSize int // Bins along each axis, at least 1.
}

// Pool returns [N, OutputSize, OutputSize, D] for features [N, H, W, D].
//
//   - boxes: [N, 4], top, left, height and width as shares of the map: (0, 0, 1, 1) is the whole map. A box lies within the map.
//   - flips: [N], 1 for the maps of mirrored views, else 0. Their bins are mirrored back, so that columns run as in the image.
//
// Boxes are inputs of the graph, so one compiled graph serves all boxes. Bilinear sampling is separable: each axis is a product with a
// matrix made from the boxes, which is correct and fast on every backend, unlike gathers. Gradients pass to the features only.
func (r RoIAlign) Pool(features, boxes, flips *Node) *Node {
	features.AssertRank(4)
	n, height, width, dim := features.Shape().Dim(0), features.Shape().Dim(1), features.Shape().Dim(2), features.Shape().Dim(3)
	boxes.AssertDims(n, 4)
	flips.AssertDims(n)
	boxes, flips = ConvertDType(boxes, features.DType()), ConvertDType(flips, features.DType())
	side := func(at int) *Node { return InsertAxes(Slice(boxes, AxisRange(), AxisElem(at)), -1) }

	rows := r.sampling(side(0), side(2), ZerosLike(side(0)), height)
	x := DotGeneral(rows, []int{2}, []int{0}, Reshape(features, n, height, width*dim), []int{1}, []int{0})
	x = Reshape(x, n, r.OutputSize, width, dim)
	// A product for each row of each map needs no transposition.
	columns := InsertAxes(r.sampling(side(1), side(3), Reshape(flips, n, 1, 1), width), 1)
	columns = BroadcastToDims(columns, n, r.OutputSize, r.OutputSize, width)
	return DotGeneral(columns, []int{3}, []int{0, 1}, x, []int{2}, []int{0, 1})
}

// sampling returns the matrices [n, OutputSize, extent] that average the samples of each bin along a line of features. extent is their number. The offset and
// the length of the box are shares of the line, and flip is 1 to mirror the bins; all are [n, 1, 1].
func (r RoIAlign) sampling(offset, length, flip *Node, extent int) *Node {
	g, dtype := offset.Graph(), offset.DType()
	most := int(math.Ceil(float64(extent) / float64(r.OutputSize)))
	bin := Iota(g, shapes.Make(dtype, 1, r.OutputSize, 1), 1)
	bin = Add(bin, Mul(flip, AddScalar(MulScalar(bin, -2), float64(r.OutputSize-1))))
	from := Iota(g, shapes.Make(dtype, 1, 1, extent), 2)

	// Feature i lies at i + 1/2 from the start of the line.
	step := MulScalar(length, float64(extent)/float64(r.OutputSize))
	start := AddScalar(MulScalar(offset, float64(extent)), -0.5)
	samples := MinScalar(Ceil(step), most) // None in a box of no length.
	divisor := MaxScalar(samples, 1)
	var sum *Node
	for i := range most {
		place := Add(start, Mul(step, Add(bin, Div(Scalar(g, dtype, float64(i)+0.5), divisor))))
		// The first and last features extend to the border. Samples more than one feature beyond it do not count.
		counts := LogicalAnd(GreaterOrEqual(place, Scalar(g, dtype, -1)), LessOrEqual(place, Scalar(g, dtype, extent)))
		counts = LogicalAnd(counts, LessThan(Scalar(g, dtype, i), samples))
		place = MinScalar(MaxScalar(place, 0), extent-1)
		weights := Mul(MaxScalar(OneMinus(Abs(Sub(place, from))), 0), ConvertDType(counts, dtype))
		if sum == nil {
			sum = weights
		} else {
			sum = Add(sum, weights)
		}
	}
	return StopGradient(Div(sum, divisor))
}
