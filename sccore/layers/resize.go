package layers

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// ResizeBilinear resizes maps, [N, rows, columns, D], to [N, height, width, D], as torch.nn.functional.interpolate does with
// align_corners=False and without antialiasing. It uses products with constant matrices, because windowed gathers are wrong on the Go
// engine.
func ResizeBilinear(maps *Node, height, width int) *Node {
	maps.AssertRank(4)
	matrix := func(from, to int) *Node {
		weights := tensors.FromFlatDataAndDimensions(BilinearWeights(from, to), to, from)
		return ConvertDType(ConstTensor(maps.Graph(), weights), maps.DType())
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
