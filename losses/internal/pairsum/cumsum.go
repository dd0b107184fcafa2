package pairsum

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// cumulate is the inclusive cumulative sum of each row of x, [R, n], by products with triangular matrices: few operations to compile, and results
// that the compiler does not compute again for each consumer. Above 64, n should have divisors from 2 to 16. A GPU takes masked sums in their place, which it
// computes where it reads x.
func (t threads) cumulate(x *Node) *Node {
	rows, n := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	chunk := n
	if n > 64 {
		for chunk = 16; n%chunk != 0; {
			chunk--
		}
	}
	square := shapes.Make(x.DType(), chunk, chunk)
	chunks := Reshape(x, rows*(n/chunk), chunk)
	var inner *Node
	if t {
		upTo := LessOrEqual(Iota(x.Graph(), square, 1), Iota(x.Graph(), square, 0))
		dims := []int{rows * (n / chunk), chunk, chunk}
		each := BroadcastToDims(InsertAxes(chunks, 1), dims...)
		inner = ReduceSum(Where(BroadcastToDims(InsertAxes(upTo, 0), dims...), each, ZerosLike(each)), -1)
	} else {
		upTo := ConvertDType(LessOrEqual(Iota(x.Graph(), square, 0), Iota(x.Graph(), square, 1)), x.DType())
		inner = MatMul(chunks, upTo)
	}
	if chunk == n {
		return Reshape(inner, rows, n)
	}
	totals := Reshape(SliceAxis(inner, 1, AxisElem(chunk-1)), rows, n/chunk)
	before := Sub(t.cumulate(totals), totals)
	return Reshape(Add(Reshape(inner, rows, n/chunk, chunk), InsertAxes(before, -1)), rows, n)
}
