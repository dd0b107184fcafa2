package layers

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

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
func AveragePool(maps *Node, size int) *Node {
	return resample(maps, size, size, averageWeights)
}

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
