package layers

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
)

// DropChannels sets whole channels of x, [height, width, batch, channels], to 0, each with probability rate and independently for each image, and
// divides the others by 1 − rate, as torch.nn.Dropout2d does in training. The random numbers are those of the scope's store. Rate is in [0, 1).
func DropChannels(scope *model.Scope, x *Node, rate float64) *Node {
	x.AssertRank(4)
	if rate == 0 {
		return x
	}
	g := x.Graph()
	random := scope.RandomUniform(g, shapes.Make(dtypes.Float32, 1, 1, x.Shape().Dim(2), x.Shape().Dim(3)))
	kept := ConvertDType(GreaterOrEqual(random, Scalar(g, dtypes.Float32, rate)), x.DType())
	return Mul(x, DivScalar(kept, 1-rate))
}
