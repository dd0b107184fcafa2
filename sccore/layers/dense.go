package layers

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
)

// Dense maps x, [batch, in], to x·weight + bias, [batch, out], or to x·weight without bias. Variables have the names and initial values of
// torch.nn.Linear, uniform within ±1/√in, but weight is [in, out].
func Dense(scope *model.Scope, x *Node, out int, bias bool) *Node {
	return DenseOf(scope, x.DType(), x, out, bias)
}

// DenseOf is [Dense] with variables of another dtype than x: float32 for a layer that computes in bfloat16.
func DenseOf(scope *model.Scope, master dtypes.DType, x *Node, out int, bias bool) *Node {
	x.AssertRank(2)
	in := x.Shape().Dim(1)
	limit := 1 / math.Sqrt(float64(in))
	scope = scope.WithInitializer(initializer.RandomUniformFn(scope, -limit, limit))
	y := Product(x, ConvertDType(scope.VariableWithShape("weight", shapes.Make(master, in, out)).NodeValue(x), x.DType()))
	if bias {
		y = AddBias(y, scope.VariableWithShape("bias", shapes.Make(master, out)).NodeValue(x))
	}
	return y
}
