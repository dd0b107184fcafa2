package heads

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// blocks applies the three blocks of the FCN. It maps [rows, columns, batch, features] to [8·rows, 8·columns, batch, Width].
func (h Segmentation) blocks(scope *model.Scope, x *Node) *Node {
	for i := range 3 {
		block := scope.At("block%d", i)
		for j, size := range []int{1, 1, 3} {
			x = layers.ReLU(biased(block.At("conv%d", j), x, size, h.Width))
		}
		x = resized(x, 2)
	}
	return x
}

// resized upsamples x, [rows, columns, batch, channels], bilinearly.
func resized(x *Node, by int) *Node {
	return resizedTo(x, by*x.Shape().Dim(0), by*x.Shape().Dim(1), layers.ResizeBilinear)
}
