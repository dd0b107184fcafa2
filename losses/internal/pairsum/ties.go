package pairsum

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// leafTies are the sums over pairs of equal q in different leaves, which the tree counts as lower and higher. Only runs of equal q that cross a
// leaf's boundary matter, so each leaf has one run before and one after. Arrays are [B·leaves, 1] unless stated otherwise.
type leafTies struct {
	threads
	centred *Node // p minus its mean, [B, padded] of float64.
	// before is the number of pairs before the leaf with the q of its first pair, and sum the sum of their centred p, both float64.
	before, sum *Node
	// begins and ends mark the pairs with the q of the leaf's first and last pair, [B·leaves, leaf].
	begins, ends *Node
	// behind is the number of leaves up to the last one that begins with the q of the leaf's last pair or a lower one, [B, leaves] of int32.
	behind *Node
}

func newLeafTies(o pairOrder) leafTies {
	batch := o.q.Shape().Dimensions[0]
	leaves := o.padded / o.leaf
	q := Reshape(o.q, batch*leaves, o.leaf)
	firstQ, lastQ := SliceAxis(q, 1, AxisElem(0)), SliceAxis(q, 1, AxisElem(o.leaf-1))

	t := leafTies{threads: o.threads, centred: Sub(ConvertDType(o.p, dtypes.Float64), o.mean), begins: Equal(q, firstQ), ends: Equal(q, lastQ)}
	each := func(q *Node) *Node { return o.hold(Reshape(q, batch, leaves)) }
	firstQ, lastQ = each(firstQ), each(lastQ)
	t.behind = o.countWhile(firstQ, lastQ, LessOrEqual)
	// From the first leaf that ends with that q up to the leaf.
	from, to := o.countWhile(lastQ, firstQ, LessThan), Iota(o.q.Graph(), t.behind.Shape(), 1)
	centred := Reshape(t.centred, batch*leaves, o.leaf)
	t.before = o.sumOfLeaves(t.ends, OnesLike(centred), from, to)
	t.sum = o.sumOfLeaves(t.ends, centred, from, to)
	return t
}

// forward returns the sums over the pairs before, like huberSums, [B·padded]. Those pairs have p_j ≥ p_i.
func (t leafTies) forward(margin float64) (huber, slope, above *Node) {
	p := Reshape(t.centred, t.begins.Shape().Dimensions...)
	masked := func(x *Node) *Node {
		x = BroadcastToDims(x, p.Shape().Dimensions...)
		return Reshape(Where(t.begins, x, ZerosLike(x)), p.Shape().Size())
	}
	huber = Add(t.before, MulScalar(Sub(t.sum, Mul(p, t.before)), 2/margin))
	return masked(huber), masked(MulScalar(t.before, margin)), masked(t.before)
}

// pull returns the sum over the pairs after, like pullSums, for weights [B·padded]. Those pairs have p_k ≤ p_i.
func (t leafTies) pull(weight *Node, margin float64) *Node {
	from := AddScalar(Iota(weight.Graph(), t.behind.Shape(), 1), 1)
	weights := t.sumOfLeaves(t.begins, Reshape(weight, t.begins.Shape().Dimensions...), from, t.behind)
	pull := BroadcastToDims(MulScalar(weights, margin), t.ends.Shape().Dimensions...)
	return Reshape(Where(t.ends, pull, ZerosLike(pull)), weight.Shape().Size())
}

// sumOfLeaves sums the entries of x, [B·leaves, leaf], where mask holds, over the leaves in [from, to) of the same image pair, [B, leaves] each.
func (t threads) sumOfLeaves(mask, x, from, to *Node) *Node {
	batch, leaves := from.Shape().Dimensions[0], from.Shape().Dimensions[1]
	each := Reshape(ReduceSum(Where(mask, x, ZerosLike(x)), -1), batch, leaves)
	upTo := Reshape(t.cumulate(each), batch*leaves)
	each = Reshape(each, batch*leaves)
	row := MulScalar(Iota(x.Graph(), from.Shape(), 0), float64(leaves))
	first, last := Add(row, MinScalar(from, float64(leaves-1))), Add(row, MaxScalar(AddScalar(to, -1), 0.0))
	sum := Add(Sub(take(upTo, last), take(upTo, first)), take(each, first))
	return t.hold(Reshape(Where(LessThan(from, to), sum, ZerosLike(sum)), batch*leaves, 1))
}
