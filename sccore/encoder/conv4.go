package encoder

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// conv4 is a minimal network for experiments on small images: four 3×3 convolutions, each with batch normalisation and ReLU, the first three
// of stride 2, then the mean over positions. With stride 2 in the first convolution, it is four times as fast on a CPU as with stride 1.
func conv4(scope *model.Scope, images *Node, width int, norm layers.Norm) *Node {
	x := images
	for i, layer := range []struct{ channels, stride int }{{width, 2}, {2 * width, 2}, {4 * width, 2}, {4 * width, 1}} {
		x = layers.Convolution(scope.At("conv%d", i+1), x, 3, layer.channels, layer.stride)
		x = layers.ReLU(layers.BatchNormAlong(scope.At("bn%d", i+1), x, 2, norm, true))
	}
	return ReduceMean(x, 0, 1)
}
