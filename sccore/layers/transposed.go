package layers

import (
	"math"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
)

// TransposedConvolution maps x, [height, width, batch, in], to [2·height, 2·width, batch, out] with a kernel of 2×2 pixels, stride 2 and a bias, as
// torch.nn.ConvTranspose2d(in, out, 2, 2) does. Its windows do not overlap, so it is one matrix product per pixel.
//
// The weight is [2, 2, out, in]: a transposed convolution swaps the two sides of a convolution. PyTorch swaps them too, to [in, out, 2, 2], so weights
// convert as those of convolutions do. Initial values are PyTorch's, uniform within ±1/√(4·out).
func TransposedConvolution(scope *model.Scope, x *Node, out int) *Node {
	x.AssertRank(4)
	limit := 1 / math.Sqrt(float64(4*out))
	scope = scope.WithInitializer(initializer.RandomUniformFn(scope, -limit, limit))
	weight := scope.VariableWithShape("weight", shapes.Make(x.DType(), 2, 2, out, x.Shape().Dim(3))).NodeValue(x)
	bias := scope.VariableWithShape("bias", shapes.Make(x.DType(), out)).NodeValue(x)
	return TransposedConvolutionWith(x, weight, bias)
}

// TransposedConvolutionWith is [TransposedConvolution] with the given weight, [2, 2, out, in], and bias, [out].
func TransposedConvolutionWith(x, weight, bias *Node) *Node {
	height, width, batch, out := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2), weight.Shape().Dim(2)
	y := Einsum("hwbi,rcoi->hwbrco", x, weight)
	y = Reshape(TransposeAllAxes(y, 0, 3, 1, 4, 2, 5), 2*height, 2*width, batch, out)
	return Add(y, ExpandLeftToRank(bias, 4))
}
