package encoder

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
)

// resNet18 is torchvision's resnet18 without its last layer, with a 3×3 stem of stride 1 and no max pooling, as is usual for CIFAR.
func resNet18(scope *model.Scope, images *Node, width int, norm Norm) *Node {
	x := Convolution(scope.At("conv1"), images, 3, width, 1)
	x = relu(batchNorm(scope.At("bn1"), x, 2, norm, true))
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

// basicBlock adds two convolutions to its input, or to a projection of its input where their shapes differ.
func basicBlock(scope *model.Scope, x *Node, channels, stride int, norm Norm) *Node {
	y := Convolution(scope.At("conv1"), x, 3, channels, stride)
	y = relu(batchNorm(scope.At("bn1"), y, 2, norm, true))
	y = Convolution(scope.At("conv2"), y, 3, channels, 1)
	y = batchNorm(scope.At("bn2"), y, 2, norm, true)
	if stride != 1 || x.Shape().Dim(-1) != channels {
		shortcut := scope.At("downsample")
		x = Convolution(shortcut.At("0"), x, 1, channels, stride)
		x = batchNorm(shortcut.At("1"), x, 2, norm, true)
	}
	return relu(Add(x, y))
}
