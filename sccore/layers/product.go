package layers

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// Product is GoMLX's MatMul, except that the gradient of a product in half precision is one too. GoMLX names float32 as the dtype in which terms of such
// products are added, and then computes the gradient in it, at twice to four times the time and memory on a GPU. Devices add in float32 anyway.
func Product(x, y *Node) *Node { return product(x, y).MatMul() }

// Contract is GoMLX's Einsum with the gradient of [Product].
func Contract(equation string, x, y *Node) *Node { return product(x, y).Einsum(equation) }

func product(x, y *Node) *DotBuilder { return Dot(x, y).WithAccumulatorDType(dtypes.InvalidDType) }

// AddBias adds bias, [out], to each row of x, [rows, out]. The bias may have another dtype than x; its gradient is summed in its own.
func AddBias(x, bias *Node) *Node {
	bias = InsertAxes(bias, 0)
	if bias.DType() != x.DType() {
		bias = ConvertDType(BroadcastToDims(bias, x.Shape().Dimensions...), x.DType())
	}
	return Add(x, bias)
}
