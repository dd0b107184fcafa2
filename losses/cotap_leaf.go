package losses

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// leafPairs compares each pair of a leaf of the tree with those ahead of it or behind. Each step takes one pair of all leaves: XLA makes one
// loop of vectors of all steps, a third of the time of reductions over an axis.
type leafPairs struct {
	p, q   *Node // [leaves, leaf], by ascending q, in the dtype of the scores: differences of scores are exact where they are small.
	margin float64
}

// forward gives Σ_{q_j < q_i} ℓ(p_i − p_j), the slope as pairSums has it, and #{q_j < q_i, p_j ≥ p_i}, over the pairs of i's leaf.
// [leaves·leaf], float64
func (l leafPairs) forward() (huber, slope, above *Node) {
	behind := func(begin, end int) (from, to int) { return begin, l.p.Shape().Dimensions[1] }
	sums := l.each(behind, func(part func(x *Node) *Node) func(j int) []*Node {
		p, q := part(l.p), part(l.q)
		zero, margin, never := l.all(p, 0), l.all(p, l.margin), l.all(p, math.Inf(-1))
		return func(j int) []*Node {
			apart := Where(LessThan(l.pair(l.q, j), q), Sub(l.pair(l.p, j), p), never)
			wide, near := Max(Add(apart, margin), zero), Max(apart, zero)
			reach := Sub(wide, near)
			return []*Node{Mul(reach, Add(wide, near)), reach, ConvertDType(GreaterOrEqual(apart, zero), apart.DType())}
		}
	})
	return DivScalar(sums[0], l.margin*l.margin), sums[1], sums[2]
}

// pull gives what pairSums.pull does, over the pairs of i's leaf. weight and the result are [leaves·leaf], float64.
func (l leafPairs) pull(weight *Node) *Node {
	weight = Reshape(ConvertDType(weight, l.p.DType()), l.p.Shape().Dimensions...)
	ahead := func(begin, end int) (from, to int) { return 0, end }
	return l.each(ahead, func(part func(x *Node) *Node) func(k int) []*Node {
		p, q := part(l.p), part(l.q)
		zero, margin, never := l.all(p, 0), l.all(p, l.margin), l.all(p, math.Inf(-1))
		return func(k int) []*Node {
			apart := Where(GreaterThan(l.pair(l.q, k), q), Sub(p, l.pair(l.p, k)), never)
			return []*Node{Mul(l.pair(weight, k), Sub(Max(Add(apart, margin), zero), Max(apart, zero)))}
		}
	})[0]
}

// all is an array of one value.
func (l leafPairs) all(like *Node, value float64) *Node {
	return BroadcastToDims(Scalar(like.Graph(), like.DType(), value), like.Shape().Dimensions...)
}

// pair is the j-th entry of each leaf, [leaves, 1].
func (l leafPairs) pair(x *Node, j int) *Node { return SliceAxis(x, 1, AxisElem(j)) }

// leafStep is how many steps make a loop: the compiler's time grows faster than their number.
const leafStep = 32

// each sums the terms of each pair of the leaves. The pairs of a loop, from begin to before end, have to do with those of their leaf from one to
// before another, as others says: part takes these out of an array of all.
func (l leafPairs) each(others func(begin, end int) (from, to int), terms func(part func(x *Node) *Node) func(j int) []*Node) []*Node {
	add := func(sums, more []*Node) []*Node {
		if sums == nil {
			return more
		}
		for i := range more {
			more[i] = Add(sums[i], more[i])
		}
		return more
	}
	leaves, leaf := l.p.Shape().Dimensions[0], l.p.Shape().Dimensions[1]
	none := func(entries int) *Node { return Zeros(l.p.Graph(), shapes.Make(l.p.DType(), leaves, entries)) }
	var sums []*Node
	for begin := 0; begin < leaf; begin += leafStep {
		end := min(begin+leafStep, leaf)
		from, to := others(begin, end)
		part := func(x *Node) *Node { return SliceAxis(x, 1, AxisRange(from, to)) }
		term := terms(part)
		var some []*Node
		for j := begin; j < end; j++ {
			some = add(some, term(j))
		}
		for i := range some {
			some[i] = Concatenate([]*Node{none(from), hold(some[i]), none(leaf - to)}, 1)
		}
		sums = add(sums, some)
	}
	for i := range sums {
		// With a conversion or another shape in it, the loop would not be one of whole vectors.
		sums[i] = Reshape(ConvertDType(sums[i], dtypes.Float64), l.p.Shape().Size())
	}
	return sums
}
