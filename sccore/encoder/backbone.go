// Package encoder holds the networks that map images to features, as functions of graph nodes. A [Backbone], ResNet-18 or a small convolutional network,
// returns one vector per image. A [ViT], from DINO's of 2021 to DINOv3's, returns tokens, and may have the paper's Object-Aware Filter. Images are [batch,
// height, width, 3], standardised.
//
// Variables are named as in torchvision and timm, with "/" for ".": layer1/0/conv1/weight, layer1/0/bn1/running_mean. Layouts are as in package layers. A seed
// of the store (SetRNGStateFromSeed) always gives the same weights.
//
// Add a backbone as a file of its own, built from package layers, and list it in families. A golden file in testdata compares it with PyTorch.
package encoder

import (
	"fmt"
	"strconv"
	"strings"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/layers"
)

// Backbone maps each image to one feature vector. [ByName] returns one.
type Backbone struct {
	// Name is the argument of ByName.
	Name string
	// Dim is the length of a feature vector, a multiple of the width.
	Dim int

	width   int // Channels of the first convolution.
	network func(scope *model.Scope, images *Node, width int, norm layers.Norm) *Node
}

// maxWidth keeps the largest weight of a network below 1 GiB.
const maxWidth = 512

// families are the networks in their usual widths.
var families = []Backbone{{"resnet18", 512, 64, resNet18}, {"conv4", 64, 16, conv4}}

// ByName returns the backbone of that name:
//
//   - "resnet18": ResNet-18 for small images (He et al., 2016): a 3×3 stem of stride 1 and no max pooling; 512 features.
//   - "conv4": four 3×3 convolutions of 16, 32, 64 and 64 channels, all but the last of stride 2; 64 features.
//
// "resnet18-w16" and "conv4-w8" have 16 and 8 channels in the first convolution, and all other widths in proportion. The error for an unknown
// name lists these names.
func ByName(name string) (Backbone, error) {
	base, narrower, hasWidth := strings.Cut(name, "-w")
	for _, f := range families {
		switch {
		case f.Name != base:
			continue
		case !hasWidth:
			return f, nil
		}
		width, err := strconv.Atoi(narrower)
		if err != nil || width < 1 || width > maxWidth || strconv.Itoa(width) != narrower {
			return Backbone{}, fmt.Errorf("backbone %q: the width after -w must be a number from 1 to %d", name, maxWidth)
		}
		return Backbone{name, width * f.Dim / f.width, width, f.network}, nil
	}
	return Backbone{}, fmt.Errorf("unknown backbone %q, want one of %s", name, strings.Join(Names(), ", "))
}

// Names lists the names that [ByName] knows. NN stands for a number of channels.
func Names() []string {
	return lo.FlatMap(families, func(f Backbone, _ int) []string { return []string{f.Name, f.Name + "-wNN"} })
}

// Features maps standardised images, [batch, height, width, 3], to [batch, Dim].
//
// Variables live under scope and have the dtype of the images. Calls with the same scope share them, and each call in training mode updates
// the running statistics in turn. A momentum encoder is a call with another scope. Features panics on images of another shape.
func (b Backbone) Features(scope *model.Scope, images *Node, norm layers.Norm) *Node {
	images.AssertDims(-1, -1, -1, 3)
	return b.network(scope, TransposeAllAxes(images, 1, 2, 0, 3), b.width, norm)
}

// resNet18 is torchvision's resnet18 without its last layer, with a 3×3 stem of stride 1 and no max pooling, as is usual for CIFAR.
func resNet18(scope *model.Scope, images *Node, width int, norm layers.Norm) *Node {
	x := layers.Convolution(scope.At("conv1"), images, 3, width, 1)
	x = layers.ReLU(layers.BatchNorm(scope.At("bn1"), x, 2, norm, true))
	for stage := range 4 {
		layer := scope.At("layer%d", stage+1)
		channels := width << stage
		for block := range 2 {
			stride := lo.Ternary(stage > 0 && block == 0, 2, 1)
			x = basicBlock(layer.At("%d", block), x, channels, stride, norm)
		}
	}
	return ReduceMean(x, 0, 1)
}

// basicBlock adds two convolutions to its input, or to a projection of its input if their shapes differ.
func basicBlock(scope *model.Scope, x *Node, channels, stride int, norm layers.Norm) *Node {
	y := layers.Convolution(scope.At("conv1"), x, 3, channels, stride)
	y = layers.ReLU(layers.BatchNorm(scope.At("bn1"), y, 2, norm, true))
	y = layers.Convolution(scope.At("conv2"), y, 3, channels, 1)
	y = layers.BatchNorm(scope.At("bn2"), y, 2, norm, true)
	if stride != 1 || x.Shape().Dim(-1) != channels {
		shortcut := scope.At("downsample")
		x = layers.Convolution(shortcut.At("0"), x, 1, channels, stride)
		x = layers.BatchNorm(shortcut.At("1"), x, 2, norm, true)
	}
	return layers.ReLU(Add(x, y))
}

// conv4 is a minimal network for experiments on small images: four 3×3 convolutions, each with batch normalisation and ReLU, the first three
// of stride 2, then the mean over positions. With stride 2 in the first convolution, it is four times as fast on a CPU as with stride 1.
func conv4(scope *model.Scope, images *Node, width int, norm layers.Norm) *Node {
	x := images
	for i, layer := range []struct{ channels, stride int }{{width, 2}, {2 * width, 2}, {4 * width, 2}, {4 * width, 1}} {
		x = layers.Convolution(scope.At("conv%d", i+1), x, 3, layer.channels, layer.stride)
		x = layers.ReLU(layers.BatchNorm(scope.At("bn%d", i+1), x, 2, norm, true))
	}
	return ReduceMean(x, 0, 1)
}

// Standardize subtracts ImageNet's mean colour from images, [batch, height, width, 3] in [0, 1], and divides by its standard deviation, as
// official checkpoints expect.
func Standardize(images *Node) *Node {
	colours := datasets.DefaultPreprocessing()
	return StandardizeBy(images, colours.Mean, colours.Std)
}

// StandardizeBy is [Standardize] with the mean and the standard deviation of red, green and blue.
func StandardizeBy(images *Node, mean, std [3]float64) *Node {
	images.AssertDims(-1, -1, -1, 3)
	colour := func(c [3]float64) *Node {
		return ConvertDType(Const(images.Graph(), [][][][]float64{{{c[:]}}}), images.DType())
	}
	return Div(Sub(images, colour(mean)), colour(std))
}
