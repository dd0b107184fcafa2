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

// Inside the networks images are [height, width, batch, channels]: whatever mixes rows or columns of the image then works on long
// contiguous runs of memory.
var axes = ConvolveAxesConfig{
	InputSpatial: []int{0, 1}, InputBatch: 2, InputChannels: 3,
	KernelSpatial: []int{0, 1}, KernelInputChannels: 2, KernelOutputChannels: 3,
	OutputSpatial: []int{0, 1}, OutputBatch: 2, OutputChannels: 3,
}

// convolution maps x, [height, width, batch, in], to [⌈height/stride⌉, ⌈width/stride⌉, batch, out] with a square window of 1 or 3 pixels,
// zeros around the image, and no bias. The weight starts as PyTorch's ResNets do: normal with variance 2/(size²·out).
func convolution(scope *model.Scope, x *Node, size, out, stride int) *Node {
	x.AssertRank(4)
	he := initializer.RandomNormalFn(scope, math.Sqrt(2/float64(size*size*out)))
	shape := shapes.Make(x.DType(), size, size, x.Shape().Dim(-1), out)
	weight := scope.WithInitializer(he).VariableWithShape("weight", shape).NodeValue(x)
	if size == 3 && stride == 1 && x.Shape().Dim(-1) > 3 {
		return winograd(x, weight, stride1)
	}
	return convolve(x, weight, stride)
}

// convolve is the library's convolution.
func convolve(x, weight *Node, stride int) *Node {
	border := weight.Shape().Dim(0) / 2
	return Convolve(x, weight).AxesConfig(axes).Strides(stride).PaddingPerDim([][2]int{{border, border}, {border, border}}).Done()
}

func relu(x *Node) *Node { return Max(x, ScalarZero(x.Graph(), x.DType())) }

var _ = strings.Contains
var _ compute.Backend
