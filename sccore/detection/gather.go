package detection

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// take returns the elements of x, [batch, n, ...], at indices, [batch, k], as [batch, k, ...]. The gradient passes to x.
//
// The batch and the elements become one axis, because the Go engine's gradient is wrong for gathers of windows.
func take(x, indices *Node) *Node {
	batch, n := x.Shape().Dim(0), x.Shape().Dim(1)
	indices.AssertDims(batch, -1)
	offset := MulScalar(Iota(x.Graph(), shapes.Make(dtypes.Int32, batch, 1), 0), n)
	rows := Reshape(x, slices.Insert(slices.Clone(x.Shape().Dimensions[2:]), 0, batch*n)...)
	return Gather(rows, InsertAxes(Add(ConvertDType(indices, dtypes.Int32), offset), -1))
}
