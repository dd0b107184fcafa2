package layers

import (
	"math"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
)

// Dense maps x, [batch, in], to x·weight + bias, [batch, out], or to x·weight without bias. Variables have the names and initial values of
// torch.nn.Linear, uniform within ±1/√in, but weight is [in, out].
func Dense(scope *model.Scope, x *Node, out int, bias bool) *Node {
	x.AssertRank(2)
	in := x.Shape().Dim(1)
	limit := 1 / math.Sqrt(float64(in))
	scope = scope.WithInitializer(initializer.RandomUniformFn(scope, -limit, limit))
	y := MatMul(x, scope.VariableWithShape("weight", shapes.Make(x.DType(), in, out)).NodeValue(x))
	if bias {
		y = Add(y, InsertAxes(scope.VariableWithShape("bias", shapes.Make(x.DType(), out)).NodeValue(x), 0))
	}
	return y
}
