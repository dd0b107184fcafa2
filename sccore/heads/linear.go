package heads

import (
	"math"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/sccore/layers"
)

// classes is the layer that returns the logits. Its weight is initialised as in PyTorch's convolutions, so that the first logits are small.
func (h Segmentation) classes(scope *model.Scope, x *Node) *Node {
	limit := 1 / math.Sqrt(float64(x.Shape().Dim(-1)))
	return initialised(scope, x, 1, h.Classes, initializer.RandomUniformFn(scope, -limit, limit))
}

// biased is a convolution with a bias, which starts at 0.
func biased(scope *model.Scope, x *Node, size, out int) *Node {
	y := layers.Convolution(scope, x, size, out, 1)
	bias := scope.WithInitializer(Zeros).VariableWithShape("bias", shapes.Make(x.DType(), out)).NodeValue(x)
	return Add(y, ExpandLeftToRank(bias, 4))
}
