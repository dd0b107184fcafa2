package encoder

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// Standardize subtracts ImageNet's mean colour from images, [batch, height, width, 3] in [0, 1], and divides by its standard deviation, as
// official checkpoints expect.
func Standardize(images *Node) *Node {
	images.AssertDims(-1, -1, -1, 3)
	colour := func(red, green, blue float64) *Node {
		return ConvertDType(Const(images.Graph(), [][][][]float64{{{{red, green, blue}}}}), images.DType())
	}
	return Div(Sub(images, colour(0.485, 0.456, 0.406)), colour(0.229, 0.224, 0.225))
}
