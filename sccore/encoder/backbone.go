package encoder

import (
	"fmt"
	"strconv"
	"strings"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// Backbone maps each image to one feature vector. [ByName] returns one.
type Backbone struct {
	// Name is the argument of ByName.
	Name string
	// Dim is the length of a feature vector.
	Dim int

	width   int // Channels of the first convolution.
	network func(scope *model.Scope, images *Node, width int, norm layers.Norm) *Node
}

// family is a network that exists in several widths.
type family struct {
	name           string
	width, dims    int // Default channels of the first convolution; Dim as a multiple of them.
	buildsFeatures func(scope *model.Scope, images *Node, width int, norm layers.Norm) *Node
}

// maxWidth keeps the largest weight of a network below 1 GiB.
const maxWidth = 512

var families = []family{
	{"resnet18", 64, 8, resNet18},
	{"conv4", 16, 4, conv4},
}

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
		if f.name != base {
			continue
		}
		width := f.width
		if hasWidth {
			var err error
			if width, err = strconv.Atoi(narrower); err != nil || width < 1 || width > maxWidth || strconv.Itoa(width) != narrower {
				return Backbone{}, fmt.Errorf("backbone %q: the width after -w must be a number from 1 to %d", name, maxWidth)
			}
		}
		return Backbone{Name: name, Dim: width * f.dims, width: width, network: f.buildsFeatures}, nil
	}
	return Backbone{}, fmt.Errorf("unknown backbone %q, want one of %s", name, strings.Join(Names(), ", "))
}

// Names lists the names that [ByName] knows. NN stands for a number of channels.
func Names() []string {
	var names []string
	for _, f := range families {
		names = append(names, f.name, f.name+"-wNN")
	}
	return names
}

// Features maps standardised images, [batch, height, width, 3], to [batch, Dim].
//
// Variables live under scope and have the dtype of the images. Calls with the same scope share them, and each call in training mode updates
// the running statistics in turn. A momentum encoder is a call with another scope. Features panics on images of another shape.
func (b Backbone) Features(scope *model.Scope, images *Node, norm layers.Norm) *Node {
	images.AssertDims(-1, -1, -1, 3)
	features := b.network(scope, TransposeAllAxes(images, 1, 2, 0, 3), b.width, norm)
	features.AssertDims(images.Shape().Dim(0), b.Dim)
	return features
}
