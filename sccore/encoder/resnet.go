package encoder

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// resNet18 is torchvision's resnet18 without its last layer, with a 3×3 stem of stride 1 and no max pooling, as is usual for CIFAR.
func resNet18(scope *model.Scope, images *Node, width int, norm layers.Norm) *Node {
	x := layers.Convolution(scope.At("conv1"), images, 3, width, 1)
	x = layers.ReLU(layers.BatchNormAlong(scope.At("bn1"), x, 2, norm, true))
	for stage := range 4 {
		layer := scope.At("layer%d", stage+1)
		channels := width << stage
		for block := range 2 {
			stride := 1
			if stage > 0 && block == 0 {
				stride = 2
			}
			x = basicBlock(layer.At("%d", block), x, channels, stride, norm)
		}
	}
	return ReduceMean(x, 0, 1)
}

// basicBlock adds two convolutions to its input, or to a projection of its input if their shapes differ.
func basicBlock(scope *model.Scope, x *Node, channels, stride int, norm layers.Norm) *Node {
	y := layers.Convolution(scope.At("conv1"), x, 3, channels, stride)
	y = layers.ReLU(layers.BatchNormAlong(scope.At("bn1"), y, 2, norm, true))
	y = layers.Convolution(scope.At("conv2"), y, 3, channels, 1)
	y = layers.BatchNormAlong(scope.At("bn2"), y, 2, norm, true)
	if stride != 1 || x.Shape().Dim(-1) != channels {
		shortcut := scope.At("downsample")
		x = layers.Convolution(shortcut.At("0"), x, 1, channels, stride)
		x = layers.BatchNormAlong(shortcut.At("1"), x, 2, norm, true)
	}
	return layers.ReLU(Add(x, y))
}
