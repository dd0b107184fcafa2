// Package layers holds the building blocks of networks as functions of graph nodes: dense layers, convolutions and their transposes, batch normalisation,
// resizing, pooling, dropout and RoI-Align. Variables live under the scope that is passed in.
//
// Initial values have PyTorch's distributions and come from the random numbers of the scope's store. The layouts differ from PyTorch's: a convolution has the
// weight [height, width, in, out] instead of [out, in, height, width], a transposed convolution [height, width, out, in] instead of [in, out, height, width],
// and a dense layer [in, out] instead of [out, in].
//
// Add a layer as a file of its own, with a golden file in testdata and the script that makes it.
package layers

import (
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/samber/lo"
	"gonum.org/v1/gonum/mat"
)

// Convolution maps x, [height, width, batch, in], to [⌈height/stride⌉, ⌈width/stride⌉, batch, out] with a square kernel of 1 or 3 pixels,
// zero padding, and no bias. The weight is initialised as in PyTorch's ResNets: normal with variance 2/(size²·out).
//
// Inside the networks, images are [height, width, batch, channels], so that operations on rows or columns work on long contiguous runs of
// memory. There are three implementations of a convolution, equal up to rounding, and the fastest one is used; docs/speed.md has their times.
func Convolution(scope *model.Scope, x *Node, size, out, stride int) *Node {
	x.AssertRank(4)
	shape := shapes.Make(x.DType(), size, size, x.Shape().Dim(-1), out)
	return ConvolutionWith(x, scope.WithInitializer(He(scope, size, out)).VariableWithShape("weight", shape).NodeValue(x), stride)
}

// He draws the weight of a convolution as PyTorch's ResNets and mmcv do: normal with variance 2/(size²·out).
func He(scope *model.Scope, size, out int) model.VariableInitializer {
	return initializer.RandomNormalFn(scope, math.Sqrt(2/float64(size*size*out)))
}

// Uniform draws the weight and the bias of a layer with so many inputs as PyTorch does: uniform within ±1/√inputs.
func Uniform(scope *model.Scope, inputs int) model.VariableInitializer {
	limit := 1 / math.Sqrt(float64(inputs))
	return initializer.RandomUniformFn(scope, -limit, limit)
}

// BiasedConvolution is [ConvolutionWith] of stride 1 with a weight that starts with the initial values, and a bias that starts at 0.
func BiasedConvolution(scope *model.Scope, x *Node, size, out int, initial model.VariableInitializer) *Node {
	weight := scope.WithInitializer(initial).VariableWithShape("weight", shapes.Make(x.DType(), size, size, x.Shape().Dim(3), out))
	bias := scope.WithInitializer(Zeros).VariableWithShape("bias", shapes.Make(x.DType(), out))
	return Add(ConvolutionWith(x, weight.NodeValue(x), 1), ExpandLeftToRank(bias.NodeValue(x), 4))
}

// ConvolutionWith is [Convolution] with the given weight, [size, size, in, out].
func ConvolutionWith(x, weight *Node, stride int) *Node {
	x.AssertRank(4)
	size, b := weight.Shape().Dim(0), x.Graph().Backend()
	switch {
	case b.Name() == "xla" && !strings.Contains(b.DeviceDescription(0), "CPU"): // It has hand-tuned convolutions, as CUDA has.
		return libraryConvolution(x, weight, stride)
	case size == 3 && stride == 1 && x.Shape().Dim(-1) > 3:
		return winograd(x, weight)
	default:
		return patchConvolution(x, weight, stride)
	}
}

// libraryConvolution leaves the convolution to the backend.
func libraryConvolution(x, weight *Node, stride int) *Node {
	border := weight.Shape().Dim(0) / 2
	return Convolve(x, weight).Strides(stride).PaddingPerDim([][2]int{{border, border}, {border, border}}).
		AxesConfig(ConvolveAxesConfig{
			InputSpatial: []int{0, 1}, InputBatch: 2, InputChannels: 3,
			KernelSpatial: []int{0, 1}, KernelInputChannels: 2, KernelOutputChannels: 3,
			OutputSpatial: []int{0, 1}, OutputBatch: 2, OutputChannels: 3,
		}).Done()
}

// patchConvolution is one matrix product of the unfolded patches with the weight.
func patchConvolution(x, weight *Node, stride int) *Node {
	size, in, out := weight.Shape().Dim(0), weight.Shape().Dim(2), weight.Shape().Dim(3)
	patches := Unfold(Unfold(x, 1, size, stride), 0, size, stride)
	height, width, batch := patches.Shape().Dim(0), patches.Shape().Dim(1), patches.Shape().Dim(2)
	y := MatMul(Reshape(patches, -1, size*size*in), Reshape(weight, size*size*in, out))
	return Reshape(y, height, width, batch, out)
}

// Unfold slides a window of 1 or 3 pixels along the axis, with zero padding, and concatenates the pixels of each window on the last axis.
//
// With stride 2 the middle pixels are the even ones and the outer pixels the odd ones. A reshape separates them. Strided slices would be
// slower, because XLA's CPU plugin interleaves pixels in their gradient.
func Unfold(x *Node, axis, size, stride int) *Node {
	before, middle, after := x, x, x
	if stride == 2 {
		even, odd := evenAndOdd(x, axis)
		before, middle, after = odd, even, odd
	}
	if size == 1 {
		return middle
	}
	if stride == 1 {
		after = shifted(x, axis, -1)
	}
	return Concatenate([]*Node{shifted(before, axis, 1), middle, after}, -1)
}

// evenAndOdd returns the elements at even and at odd positions along the axis. If their number is odd, a zero is appended.
func evenAndOdd(x *Node, axis int) (even, odd *Node) {
	if x.Shape().Dim(axis)%2 != 0 {
		pads := make([]PadAxis, x.Rank())
		pads[axis].End = 1
		x = Pad(x, ScalarZero(x.Graph(), x.DType()), pads...)
	}
	half := slices.Clone(x.Shape().Dimensions)
	half[axis] /= 2
	pairs := Reshape(x, slices.Insert(slices.Clone(half), axis+1, 2)...)
	phase := func(i int) *Node { return Reshape(SliceAxis(pairs, axis+1, AxisElem(i)), half...) }
	return phase(0), phase(1)
}

// shifted moves x along the axis by one element, forward (1) or backward (-1), and fills the gap with a zero.
func shifted(x *Node, axis, by int) *Node {
	if x.Shape().Dim(axis) == 1 {
		return ZerosLike(x)
	}
	pads := make([]PadAxis, x.Rank())
	pads[axis] = PadAxis{Start: max(by, 0), End: max(-by, 0)}
	kept := AxisRange(max(-by, 0), x.Shape().Dim(axis)-max(by, 0))
	return Pad(SliceAxis(x, axis, kept), ScalarZero(x.Graph(), x.DType()), pads...)
}

// Product is GoMLX's MatMul of matrices, except that the gradient of a product in half precision is one too. GoMLX names float32 as the dtype in which terms of
// such products are added, and then computes the gradient in it, at twice to four times the time and memory on a GPU. Devices add in float32 anyway.
func Product(x, y *Node) *Node { return product(x, y).Product() }

// Contract is GoMLX's Einsum with the gradient of [Product], for equations whose every letter is in two of the three terms.
func Contract(equation string, x, y *Node) *Node {
	terms, out, _ := strings.Cut(equation, "->")
	left, right, _ := strings.Cut(terms, ",")
	var batch string
	var leftSum, leftBatch, rightSum, rightBatch []int
	for i, letter := range left {
		at := strings.IndexRune(right, letter)
		switch {
		case at < 0:
		case strings.ContainsRune(out, letter):
			batch, leftBatch, rightBatch = batch+string(letter), append(leftBatch, i), append(rightBatch, at)
		default:
			leftSum, rightSum = append(leftSum, i), append(rightSum, at)
		}
	}
	alone := func(term, other string) string {
		return strings.Map(func(letter rune) rune {
			return lo.Ternary(strings.ContainsRune(other, letter), -1, letter)
		}, term)
	}
	z, order := product(x, y).General(leftSum, leftBatch, rightSum, rightBatch), batch+alone(left, right)+alone(right, left)
	if order == out {
		return z
	}
	return TransposeAllAxes(z, lo.Map([]rune(out), func(letter rune, _ int) int { return strings.IndexRune(order, letter) })...)
}

func product(x, y *Node) *DotBuilder { return Dot(x, y).WithAccumulatorDType(dtypes.InvalidDType) }

// AddBias adds bias, [out], to each row of x, [rows, out]. The bias may have another dtype than x; its gradient is summed in its own.
func AddBias(x, bias *Node) *Node {
	bias = InsertAxes(bias, 0)
	if bias.DType() != x.DType() {
		bias = ConvertDType(BroadcastToDims(bias, x.Shape().Dimensions...), x.DType())
	}
	return Add(x, bias)
}

// TransposedConvolution maps x, [height, width, batch, in], to [2·height, 2·width, batch, out] with a kernel of 2×2 pixels, stride 2 and a bias, as
// torch.nn.ConvTranspose2d(in, out, 2, 2) does. Its windows do not overlap, so it is one matrix product per pixel.
//
// The weight is [2, 2, out, in]: a transposed convolution swaps the two sides of a convolution. PyTorch swaps them too, to [in, out, 2, 2], so weights convert
// as for convolutions. Initial values are PyTorch's, uniform within ±1/√(4·out).
func TransposedConvolution(scope *model.Scope, x *Node, out int) *Node {
	x.AssertRank(4)
	scope = scope.WithInitializer(Uniform(scope, 4*out))
	weight := scope.VariableWithShape("weight", shapes.Make(x.DType(), 2, 2, out, x.Shape().Dim(3))).NodeValue(x)
	bias := scope.VariableWithShape("bias", shapes.Make(x.DType(), out)).NodeValue(x)
	return TransposedConvolutionWith(x, weight, bias)
}

// TransposedConvolutionWith is [TransposedConvolution] with the given weight, [2, 2, out, in], and bias, [out].
func TransposedConvolutionWith(x, weight, bias *Node) *Node {
	height, width, batch, out := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2), weight.Shape().Dim(2)
	y := Einsum("hwbi,rcoi->hwbrco", x, weight)
	y = Reshape(TransposeAllAxes(y, 0, 3, 1, 4, 2, 5), 2*height, 2*width, batch, out)
	return Add(y, ExpandLeftToRank(bias, 4))
}

// Dense maps x, [batch, in], to x·weight + bias, [batch, out], or to x·weight without bias. Variables have the names and initial values of
// torch.nn.Linear, uniform within ±1/√in, but weight is [in, out].
func Dense(scope *model.Scope, x *Node, out int, bias bool) *Node {
	return DenseOf(scope, x.DType(), x, out, bias)
}

// DenseOf is [Dense] with variables of another dtype than x: float32 for a layer that computes in bfloat16.
func DenseOf(scope *model.Scope, master dtypes.DType, x *Node, out int, bias bool) *Node {
	x.AssertRank(2)
	in := x.Shape().Dim(1)
	scope = scope.WithInitializer(Uniform(scope, in))
	y := Product(x, ConvertDType(scope.VariableWithShape("weight", shapes.Make(master, in, out)).NodeValue(x), x.DType()))
	if bias {
		y = AddBias(y, scope.VariableWithShape("bias", shapes.Make(master, out)).NodeValue(x))
	}
	return y
}

// bilinear computes one axis of a convolution with fewer multiplications. A tile of m neighbouring outputs of a filter g on the inputs d is
//
//	output · ( (filter·g) ⊙ (input·d) )
//
// The products ⊙ sum over channels and dominate the cost, so fewer of them is faster (Winograd, 1980; Lavin and Gray, 2016).
type bilinear struct {
	m      int
	input  [][]float64 // [products, inputs of a tile]
	filter *mat.Dense  // [products, filter]
	output [][]float64 // [m, products]
}

// f43 computes 4 outputs of a filter of length 3 with 6 products, 36 instead of 144 for a tile of 4×4 pixels, by Toom and Cook's algorithm: it multiplies two
// polynomials by their values at 0, 1, −1, 2, −1/2 and infinity. Small points of both signs and their reciprocals keep rounding errors small, in float32 about 2e-6
// of the outputs, ten times as large as in a direct sum.
var f43 = bilinear{
	m: 4,
	input: [][]float64{
		{1, 1.5, -2, -1.5, 1, 0},
		{0, -1, -2.5, -0.5, 1, 0},
		{0, 1, 0.5, -2.5, 1, 0},
		{0, -0.5, -1, 0.5, 1, 0},
		{0, 2, -1, -2, 1, 0},
		{0, 1, 1.5, -2, -1.5, 1},
	},
	filter: mat.NewDense(6, 3, []float64{
		1, 0, 0,
		-1. / 3, -1. / 3, -1. / 3,
		1. / 3, -1. / 3, 1. / 3,
		1. / 15, 2. / 15, 4. / 15,
		-16. / 15, 8. / 15, -4. / 15,
		0, 0, 1,
	}),
	output: [][]float64{
		{1, 1, 1, 1, 1, 0},
		{0, 1, -1, 2, -0.5, 0},
		{0, 1, 1, 4, 0.25, 0},
		{0, 1, -1, 8, -0.125, 1},
	},
}

// over applies the algorithm along a whole axis: products[(a,t), i] maps input i to product a of tile t, and outputs[o, (a,t)] maps the
// products to output o. Inputs beyond the image are zero and outputs beyond it are dropped, so any size works.
func (b bilinear) over(size int) (products, outputs [][]float64, tiles int) {
	n := len(b.input)
	tiles = (size + b.m - 1) / b.m
	for a := range n {
		for tile := range tiles {
			row := make([]float64, size)
			for i, c := range b.input[a] {
				if at := tile*b.m + i - 1; 0 <= at && at < size {
					row[at] = c
				}
			}
			products = append(products, row)
		}
	}
	for o := range size {
		row := make([]float64, n*tiles)
		for a, c := range b.output[o%b.m] {
			row[a*tiles+o/b.m] = c
		}
		outputs = append(outputs, row)
	}
	return products, outputs, tiles
}

// winograd convolves x, [height, width, batch, in], with weight, [3, 3, in, out], and zero padding. It and its gradient consist only of
// matrix products with long contiguous rows.
func winograd(x, weight *Node) *Node {
	g := x.Graph()
	matrix := func(rows [][]float64) *Node { return ConvertDType(Const(g, rows), x.DType()) }
	height, width, batch, in := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2), x.Shape().Dim(3)
	out, n := weight.Shape().Dim(3), len(f43.input)
	rowProducts, rowOutputs, high := f43.over(height)
	columnProducts, columnOutputs, wide := f43.over(width)

	var filters mat.Dense // Along the slower and the faster axis.
	filters.Kronecker(f43.filter, f43.filter)
	u := ConstTensor(g, tensors.FromFlatDataAndDimensions(filters.RawMatrix().Data, n*n, 3*3))
	u = MatMul(ConvertDType(u, x.DType()), Reshape(weight, 3*3, in*out))
	u = Reshape(u, n*n, in, out)

	v := MatMul(matrix(rowProducts), Reshape(x, height, width*batch*in))
	v = each(matrix(columnProducts), Reshape(v, n*high, width, batch*in))
	v = TransposeAllAxes(Reshape(v, n, high, n, wide, batch*in), 0, 2, 1, 3, 4)
	v = Reshape(v, n*n, high*wide*batch, in)

	y := DotGeneral(v, []int{2}, []int{0}, u, []int{1}, []int{0})

	y = TransposeAllAxes(Reshape(y, n, n, high, wide, batch*out), 0, 2, 1, 3, 4)
	y = each(matrix(columnOutputs), Reshape(y, n*high, n*wide, batch*out))
	y = MatMul(matrix(rowOutputs), Reshape(y, n*high, width*batch*out))
	return Reshape(y, height, width, batch, out)
}

// each multiplies each matrix of x, [n, k, columns], from the left by m, [rows, k].
func each(m, x *Node) *Node {
	m = BroadcastToDims(InsertAxes(m, 0), x.Shape().Dim(0), m.Shape().Dim(0), m.Shape().Dim(1))
	return DotGeneral(m, []int{2}, []int{0}, x, []int{1}, []int{0})
}
