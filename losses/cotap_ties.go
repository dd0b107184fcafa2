package losses

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// leafTies are the sums over pairs of equal q in different leaves, which the tree takes for lower and higher ones. Only runs that cross a
// leaf's boundary matter, so there is one run before and one after for each leaf.
type leafTies struct {
	order   pairOrder
	centred *Node // p less its mean, [B, padded], float64.
	// before is the number of pairs ahead of the leaf with the q of its first pair, and sum their sum of centred p. [leaves, 1], float64
	before, sum *Node
	// begins and ends tell the pairs with the q of the leaf's first and last pair. [leaves, leaf]
	begins, ends *Node
	// from and to are where the pairs behind the leaf with the q of its last pair begin and end, among all pairs. [leaves, 1], int32
	from, to *Node
}

func newLeafTies(o pairOrder) leafTies {
	g := o.q.Graph()
	batch := o.q.Shape().Dimensions[0]
	leaves := o.padded / o.leaf
	q := Reshape(o.q, batch, leaves, o.leaf)
	firstQ, lastQ := SliceAxis(q, 2, AxisElem(0)), SliceAxis(q, 2, AxisElem(o.leaf-1))
	firstQ.AssertDims(batch, leaves, 1)

	t := leafTies{order: o, centred: Sub(ConvertDType(o.p, dtypes.Float64), o.mean)}
	each := func(x *Node) *Node { return hold(Reshape(x, batch*leaves, -1)) }
	t.begins, t.ends = Reshape(Equal(q, firstQ), batch*leaves, -1), Reshape(Equal(q, lastQ), batch*leaves, -1)
	row := Mul(Iota(g, shapes.Make(dtypes.Int32, batch, 1), 0), Scalar(g, dtypes.Int32, o.padded))
	leaf := Add(row, Mul(Iota(g, shapes.Make(dtypes.Int32, batch, leaves), 1), Scalar(g, dtypes.Int32, o.leaf)))
	run := Add(row, countWhile(o.q, Reshape(firstQ, batch, leaves), LessThan))
	t.before = each(ConvertDType(Sub(leaf, run), dtypes.Float64))
	t.sum = each(sumBetween(t.centred, run, leaf))
	t.from = each(AddScalar(leaf, float64(o.leaf)))
	t.to = each(Add(row, countWhile(o.q, Reshape(lastQ, batch, leaves), LessOrEqual)))
	return t
}

// forward are the sums over the pairs ahead, as huberSums has them; those pairs have p_j ≥ p_i. [B·padded]
func (t leafTies) forward(margin float64) (huber, slope, above *Node) {
	p := Reshape(t.centred, t.begins.Shape().Dimensions...)
	masked := func(x *Node) *Node {
		x = BroadcastToDims(x, p.Shape().Dimensions...)
		return Reshape(Where(t.begins, x, ZerosLike(x)), p.Shape().Size())
	}
	huber = Add(t.before, MulScalar(Sub(t.sum, Mul(p, t.before)), 2/margin))
	return masked(huber), masked(MulScalar(t.before, margin)), masked(t.before)
}

// pull is the sum over the pairs behind, as pullSums has it, of weights [B·padded]; those pairs have p_k ≤ p_i. [B·padded]
func (t leafTies) pull(weight *Node, margin float64) *Node {
	weights := hold(sumBetween(Reshape(weight, t.order.p.Shape().Dimensions...), t.from, t.to))
	pull := BroadcastToDims(MulScalar(weights, margin), t.ends.Shape().Dimensions...)
	return Reshape(Where(t.ends, pull, ZerosLike(pull)), weight.Shape().Size())
}

// sumBetween sums the entries of x, [B, n], from place begin to before place end of the same row. Places are among all entries.
func sumBetween(x, begin, end *Node) *Node {
	all := x.Shape().Size()
	upTo, flat := Reshape(cumulate(x), all), Reshape(x, all)
	first, last := MinScalar(begin, float64(all-1)), MaxScalar(AddScalar(end, -1), 0.0)
	sum := Add(Sub(take(upTo, last), take(upTo, first)), take(flat, first))
	return Where(LessThan(begin, end), sum, ZerosLike(sum))
}
