package encoder

import (
	"math"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
)

// convolution maps x, [height, width, batch, in], to [⌈height/stride⌉, ⌈width/stride⌉, batch, out] with a square window of 1 or 3 pixels,
// zeros around the image, and no bias. The weight starts as PyTorch's ResNets do: normal with variance 2/(size²·out).
//
// Inside the networks images are [height, width, batch, channels], so that whatever mixes rows or columns of an image works on long
// contiguous runs of memory. One convolution has three forms, equal but for rounding, the fastest of which is taken. Milliseconds of
// one core for the value and both gradients of 3×3 convolutions in ResNet-18 at batch 64, on XLA's CPU plugin:
//
//	in → out at size        library   patches   winograd F(4,3)   F(2,3)
//	 64 →  64 at 32×32          109       142                90
//	128 → 128 at 16×16           90                          50
//	256 → 256 at  8×8            84        90                36       51
//	512 → 512 at  4×4            78                          50       51
//	  3 →  64 at 32×32           28         9                37
//	 64 → 128 from 32×32 by 2    64        58                80       88
//	256 → 512 from 8×8 by 2      45        42                61       45
//
// Tried and lost besides: batch-first layout, nine products of shifted images added up, one product by the Kronecker matrix for both
// axes of the image, and polyphase Winograd for stride 2 (the last two rows).
func convolution(scope *model.Scope, x *Node, size, out, stride int) *Node {
	x.AssertRank(4)
	in := x.Shape().Dim(-1)
	he := initializer.RandomNormalFn(scope, math.Sqrt(2/float64(size*size*out)))
	shape := shapes.Make(x.DType(), size, size, in, out)
	weight := scope.WithInitializer(he).VariableWithShape("weight", shape).NodeValue(x)
	switch {
	case isAccelerator(x.Graph().Backend()):
		return libraryConvolution(x, weight, stride)
	case size == 3 && stride == 1 && in > 3:
		return winograd(x, weight)
	default:
		return patchConvolution(x, weight, stride)
	}
}

// isAccelerator tells whether the backend has hand-tuned convolutions, as CUDA has.
func isAccelerator(b compute.Backend) bool {
	return b.Name() == "xla" && !strings.Contains(b.DeviceDescription(0), "CPU")
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

// patchConvolution is one matrix product, of all patches under the window with the weight.
func patchConvolution(x, weight *Node, stride int) *Node {
	height, width, batch, in := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2), x.Shape().Dim(3)
	size, out := weight.Shape().Dim(0), weight.Shape().Dim(3)
	if border := size / 2; border > 0 {
		around := PadAxis{Start: border, End: border}
		x = Pad(x, ScalarZero(x.Graph(), x.DType()), around, around, PadAxis{}, PadAxis{})
	}
	var shifted []*Node
	for row := range size {
		for column := range size {
			shifted = append(shifted, Slice(x,
				AxisRange(row, row+height).Stride(stride), AxisRange(column, column+width).Stride(stride), AxisRange(), AxisRange()))
		}
	}
	patches := Reshape(Concatenate(shifted, -1), -1, size*size*in)
	y := MatMul(patches, Reshape(weight, size*size*in, out))
	return Reshape(y, (height+stride-1)/stride, (width+stride-1)/stride, batch, out)
}

func relu(x *Node) *Node { return Max(x, ScalarZero(x.Graph(), x.DType())) }
