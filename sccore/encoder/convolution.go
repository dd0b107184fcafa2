package encoder

import (
	"math"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
)

// convolution maps x, [batch, height, width, in], to [batch, ⌈height/stride⌉, ⌈width/stride⌉, out] with a square window of odd size,
// zeros around the image, and no bias. The weight starts as PyTorch's ResNets do: normal with variance 2/(size²·out).
func convolution(scope *model.Scope, x *Node, size, out, stride int) *Node {
	x.AssertRank(4)
	he := initializer.RandomNormalFn(scope, math.Sqrt(2/float64(size*size*out)))
	shape := shapes.Make(x.DType(), size, size, x.Shape().Dim(-1), out)
	weight := scope.WithInitializer(he).VariableWithShape("weight", shape).NodeValue(x)
	border := size / 2
	return Convolve(x, weight).Strides(stride).PaddingPerDim([][2]int{{border, border}, {border, border}}).Done()
}

func relu(x *Node) *Node { return Max(x, ScalarZero(x.Graph(), x.DType())) }
