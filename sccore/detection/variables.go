package detection

import (
	"math"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/sccore/layers"
)

// normal draws initial weights with the given deviation.
func normal(scope *model.Scope, deviation float64) model.VariableInitializer {
	return initializer.RandomNormalFn(scope, deviation)
}

// uniform draws initial weights within ±limit.
func uniform(scope *model.Scope, limit float64) model.VariableInitializer {
	return initializer.RandomUniformFn(scope, -limit, limit)
}

// kaiming is the deviation of mmcv's kaiming_init for a kernel of size×size pixels.
func kaiming(size, out int) float64 { return math.Sqrt(2 / float64(size*size*out)) }

// variable returns the value of a variable as a node.
func variable(scope *model.Scope, x *Node, name string, initial model.VariableInitializer, dims ...int) *Node {
	return scope.WithInitializer(initial).VariableWithShape(name, shapes.Make(x.DType(), dims...)).NodeValue(x)
}

// convolution is a convolution with a bias, which starts at 0. Its weight starts with the initial values.
func convolution(scope *model.Scope, x *Node, size, out int, initial model.VariableInitializer) *Node {
	weight := variable(scope, x, "weight", initial, size, size, x.Shape().Dim(3), out)
	return Add(layers.ConvolutionWith(x, weight, 1), ExpandLeftToRank(variable(scope, x, "bias", Zeros, out), 4))
}

// dense is a dense layer with a bias, which starts at 0. Its weight starts with the initial values.
func dense(scope *model.Scope, x *Node, out int, initial model.VariableInitializer) *Node {
	y := MatMul(x, variable(scope, x, "weight", initial, x.Shape().Dim(1), out))
	return Add(y, InsertAxes(variable(scope, x, "bias", Zeros, out), 0))
}
