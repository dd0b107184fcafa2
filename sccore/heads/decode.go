package heads

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/sccore/layers"
)

// decoder is what mmsegmentation's heads have in common.
type decoder struct {
	classes int
	dropout float64
	train   bool
}

// check returns an error that names the first setting of a head that is out of range. Channels are the widths of its layers.
func (d decoder) check(head string, channels ...int) error {
	if d.classes < 2 || d.classes > 255 {
		return fmt.Errorf("%s of %d classes, want 2 to 255", head, d.classes)
	}
	for _, width := range channels {
		if width < 1 {
			return fmt.Errorf("%s of %d channels, want at least 1", head, width)
		}
	}
	if !(d.dropout >= 0 && d.dropout < 1) {
		return fmt.Errorf("%s with dropout %g, want at least 0 and below 1", head, d.dropout)
	}
	return nil
}

// module is a convolution, batch normalisation and ReLU: mmcv's ConvModule, in conv and bn under scope.
func (d decoder) module(scope *model.Scope, x *Node, size, out int) *Node {
	x = layers.Convolution(scope.At("conv"), x, size, out, 1)
	return layers.ReLU(layers.BatchNormAlong(scope.At("bn"), x, 2, layers.Norm{Train: d.train}, true))
}

// logits drops channels and classifies pixels, in conv_seg under scope. Its weight starts as small as in mmsegmentation.
func (d decoder) logits(scope *model.Scope, x *Node) *Node {
	if d.train {
		x = layers.DropChannels(scope, x, d.dropout)
	}
	scope = scope.At("conv_seg")
	return initialised(scope, x, 1, d.classes, initializer.RandomNormalFn(scope, 0.01))
}

// initialised is a convolution with a bias. Its weight starts with the given values and its bias at 0.
func initialised(scope *model.Scope, x *Node, size, out int, initial model.VariableInitializer) *Node {
	weight := scope.WithInitializer(initial).VariableWithShape("weight", shapes.Make(x.DType(), size, size, x.Shape().Dim(3), out))
	bias := scope.WithInitializer(Zeros).VariableWithShape("bias", shapes.Make(x.DType(), out))
	return Add(layers.ConvolutionWith(x, weight.NodeValue(x), 1), ExpandLeftToRank(bias.NodeValue(x), 4))
}

// xavier is Glorot's uniform distribution for the weight of a convolution.
func xavier(scope *model.Scope, size, in, out int) model.VariableInitializer {
	limit := math.Sqrt(6 / float64(size*size*(in+out)))
	return initializer.RandomUniformFn(scope, -limit, limit)
}

// like resizes x, [rows, columns, batch, channels], to the rows and columns of the reference.
func like(reference, x *Node, resize func(maps *Node, height, width int) *Node) *Node {
	return resizedTo(x, reference.Shape().Dim(0), reference.Shape().Dim(1), resize)
}

// resizedTo resizes x, [rows, columns, batch, channels], to [height, width, batch, channels].
func resizedTo(x *Node, height, width int, resize func(maps *Node, height, width int) *Node) *Node {
	rows, columns, batch, channels := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2), x.Shape().Dim(3)
	if rows == height && columns == width {
		return x
	}
	x = resize(Reshape(x, 1, rows, columns, batch*channels), height, width)
	return Reshape(x, height, width, batch, channels)
}
