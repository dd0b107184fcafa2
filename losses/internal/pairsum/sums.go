// Package pairsum computes the sums over pairs of pairs that CoTAP consists of, exactly. Scores of patch pairs go in; sums over all pairs of lower or
// higher target score come out, for each pair. There are three ways to the same sums: [BruteForce] and [Tree] in the graph, forward and backward, and
// [Lower] in plain Go.
//
// The tree consists of an order with a correction for ties across leaves (order.go), levels of nodes (level.go), and leaves in which all pairs are compared
// (tree.go). The next ranking loss over all pairs takes its sums from here.
package pairsum

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/samber/lo"
)

// Sums are sums over pairs of pairs. The entries are in an order that the algorithm chooses, and all are float64.
type Sums interface {
	Target() (q, valid *Node)            // The target score q; valid marks entries that are not padding.
	Forward() (huber, same, slope *Node) // Σ_{q_j < q_i} ℓ(p_i − p_j), 1/ψ_i, and the slope −τ²/2 Σ_{q_j < q_i} ℓ'(p_i − p_j).
	Pull(weight *Node) *Node             // −τ²/2 Σ_{q_k > q_i} weight_k ℓ'(p_k − p_i).
	Restore(entries *Node) *Node         // Puts entries into the order and shape of the inputs.
}

// allPairs compares every two pairs, a block of rows at a time, in the dtype of the scores: differences of scores are exact where they are small.
type allPairs struct {
	p, q   *Node // [B, N]
	margin float64
}

// BruteForce computes the sums by comparing every two pairs in O(N²) time, for scores in [0, 1], [B, N].
func BruteForce(p, q *Node, margin float64) Sums { return allPairs{p, q, margin} }

func (a allPairs) Target() (q, valid *Node) {
	return ConvertDType(a.q, dtypes.Float64), LogicalNot(IsNaN(a.q))
}

func (a allPairs) Forward() (huber, same, slope *Node) {
	sums := a.blockwise(3, OnesLike(a.p), func(p, q, rowP, rowQ, ones *Node) []*Node {
		lower := LessThan(q, rowQ)
		return huberSums(Sub(p, rowP), lower, And(LogicalNot(lower), GreaterOrEqual(p, rowP)), ones, a.margin)
	})
	return sums[0], sums[1], sums[2]
}

func (a allPairs) Pull(weight *Node) *Node {
	return a.blockwise(1, ConvertDType(weight, a.p.DType()), func(p, q, rowP, rowQ, weight *Node) []*Node {
		wide, narrow := reach(Sub(rowP, p), a.margin)
		return []*Node{sumColumns(Mul(ConvertDType(GreaterThan(q, rowQ), p.DType()), Sub(wide, narrow)), weight)}
	})[0]
}

func (a allPairs) Restore(entries *Node) *Node { return entries }

// blockEntries is the number of comparisons in a block: enough to be worth an iteration of the loop, and few enough for the memory. unrolledEntries is the
// number in a block without a loop. Each such block makes the graph larger.
const blockEntries, unrolledEntries = 1 << 20, 1 << 22

// blockwise calls sums with p and q of all pairs of some image pairs, [b, 1, N], and of some of their pairs, [b, rows, 1], and with columns, [b, N].
// It assembles the results, [b, rows] each, to [B, N] in float64. A backend that cannot slice at a computed index has no loop over the blocks.
func (a allPairs) blockwise(results int, columns *Node, sums func(p, q, rowP, rowQ, columns *Node) []*Node) []*Node {
	g, dtype := a.p.Graph(), a.p.DType()
	batch, n := a.p.Shape().Dimensions[0], a.p.Shape().Dimensions[1]
	rows := min(n, max(1, blockEntries/n))
	images := min(batch, max(1, blockEntries/(rows*n)))
	if rows*images == n*batch || !g.Backend().Capabilities().Operations[compute.OpTypeDynamicSlice] {
		return a.unrolled(results, columns, sums)
	}
	parameters := func(g *Graph) (image, row, p, q, columns, filled *Node) {
		scores := shapes.Make(dtype, batch, n)
		return Parameter(g, "image", shapes.Make(dtypes.Int32)), Parameter(g, "row", shapes.Make(dtypes.Int32)),
			Parameter(g, "p", scores), Parameter(g, "q", scores), Parameter(g, "columns", scores), Parameter(g, "filled", shapes.Make(dtype, results, batch, n))
	}
	more := NewClosure(g, func(g *Graph) []*Node {
		image, _, _, _, _, _ := parameters(g)
		return []*Node{LessThan(image, Const(g, int32(batch)))}
	})
	block := NewClosure(g, func(g *Graph) []*Node {
		image, row, p, q, columns, filled := parameters(g)
		zero := Const(g, int32(0))
		// The last blocks end with the last pairs, so some of their entries are computed twice.
		whole := func(x *Node) *Node { return DynamicSlice(x, []*Node{image, zero}, []int{images, n}) }
		part := func(x *Node) *Node { return InsertAxes(DynamicSlice(x, []*Node{image, row}, []int{images, rows}), -1) }
		values := sums(InsertAxes(whole(p), 1), InsertAxes(whole(q), 1), part(p), part(q), whole(columns))
		filled = DynamicUpdateSlice(filled, Stack(values, 0), []*Node{zero, image, row})
		next := Add(row, Const(g, int32(rows)))
		through := GreaterOrEqual(next, Const(g, int32(n)))
		return []*Node{Add(image, Where(through, Const(g, int32(images)), zero)), Where(through, zero, next), p, q, columns, filled}
	})
	start := Scalar(g, dtypes.Int32, 0)
	filled := While(more, block, start, start, a.p, a.q, columns, Zeros(g, shapes.Make(dtype, results, batch, n)))[5]
	return lo.Times(results, func(i int) *Node { return ConvertDType(row(filled, i), dtypes.Float64) })
}

// unrolled is blockwise without a loop, for blocks of some pairs of all image pairs.
func (a allPairs) unrolled(results int, columns *Node, sums func(p, q, rowP, rowQ, columns *Node) []*Node) []*Node {
	batch, n := a.p.Shape().Dimensions[0], a.p.Shape().Dimensions[1]
	rows := max(1, unrolledEntries/(batch*n))
	each := make([][]*Node, results)
	for from := 0; from < n; from += rows {
		part := func(x *Node) *Node { return InsertAxes(SliceAxis(x, 1, AxisRange(from, min(from+rows, n))), -1) }
		for i, sum := range sums(InsertAxes(a.p, 1), InsertAxes(a.q, 1), part(a.p), part(a.q), columns) {
			each[i] = append(each[i], ConvertDType(sum, dtypes.Float64))
		}
	}
	return lo.Times(results, func(i int) *Node { return Concatenate(each[i], 1) })
}

// huberSums takes apart = p_j − p_i at [b, i, j] and masks of the pairs with q_j < q_i and of those to count. It returns the sums over j of ℓ(p_i −
// p_j), of the pairs to count, and of ℓ's slope as in [Sums]. ones are [b, j].
//
// Sums are products with columns, and constants have the rank of apart, because XLA allows no reductions and no captured scalars in a loop.
func huberSums(apart, lower, counted, ones *Node, margin float64) []*Node {
	wide, narrow := reach(apart, margin)
	mask := ConvertDType(lower, apart.DType())
	huber := Mul(mask, Sub(Square(wide), Square(narrow)))
	slope := Mul(mask, Sub(wide, narrow))
	perSquare := ConstAsDType(apart.Graph(), apart.DType(), [][]float64{{1 / (margin * margin)}})
	return []*Node{Mul(sumColumns(huber, ones), perSquare), sumColumns(ConvertDType(counted, apart.DType()), ones), sumColumns(slope, ones)}
}

// reach is [margin + apart]₊ and [apart]₊.
func reach(apart *Node, margin float64) (wide, narrow *Node) {
	zero := constant(apart, 0)
	return Max(Add(apart, constant(apart, margin)), zero), Max(apart, zero)
}

func constant(like *Node, value float64) *Node {
	return ConstAsDType(like.Graph(), like.DType(), [][][]float64{{{value}}})
}

// sumColumns is Σ_j x[b, i, j] columns[b, j].
func sumColumns(x, columns *Node) *Node { return Einsum("bij,bj->bi", x, columns) }

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
