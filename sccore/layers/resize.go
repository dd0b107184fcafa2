package layers

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// ResizeBilinear resizes maps, [N, rows, columns, D], to [N, height, width, D], as torch.nn.functional.interpolate does with
// align_corners=False and without antialiasing. It uses products with constant matrices, because windowed gathers are wrong on the Go
// engine.
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
	n, dim := maps.Shape().Dim(0), maps.Shape().Dim(3)
	maps = Einsum("hr,nrcd->nhcd", matrix(maps.Shape().Dim(1), height), maps)
	maps = Einsum("wc,nhcd->nhwd", matrix(maps.Shape().Dim(2), width), maps)
	maps.AssertDims(n, height, width, dim)
	return maps
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

// nearestWeights returns the weights, [to, from], of a nearest-neighbour resize of one axis. The positions are rounded in float32, as in PyTorch.
func nearestWeights(from, to int) []float64 {
	weights := make([]float64, to*from)
	for i := range to {
		at := int(float32(i) * (float32(from) / float32(to)))
		weights[i*from+min(at, from-1)] = 1
	}
	return weights
}
