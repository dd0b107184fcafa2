package losses

import (
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
	sums := l.each(behind, func(j int, part func(x *Node) *Node) []*Node {
		apart, lower := Sub(l.pair(l.p, j), part(l.p)), LessThan(l.pair(l.q, j), part(l.q))
		wide, near := MaxScalar(AddScalar(apart, l.margin), 0.0), MaxScalar(apart, 0.0)
		mask := ConvertDType(lower, apart.DType())
		reach := Mul(mask, Sub(wide, near))
		notBelow := ConvertDType(And(lower, GreaterOrEqual(apart, ZerosLike(apart))), apart.DType())
		return []*Node{Mul(reach, Add(wide, near)), reach, notBelow}
	})
	return DivScalar(sums[0], l.margin*l.margin), sums[1], sums[2]
}

// pull gives what pairSums.pull does, over the pairs of i's leaf. weight and the result are [leaves·leaf], float64.
func (l leafPairs) pull(weight *Node) *Node {
	weight = Reshape(ConvertDType(weight, l.p.DType()), l.p.Shape().Dimensions...)
	ahead := func(begin, end int) (from, to int) { return 0, end }
	return l.each(ahead, func(k int, part func(x *Node) *Node) []*Node {
		apart, higher := Sub(part(l.p), l.pair(l.p, k)), GreaterThan(l.pair(l.q, k), part(l.q))
		reach := Sub(MaxScalar(AddScalar(apart, l.margin), 0.0), MaxScalar(apart, 0.0))
		return []*Node{Mul(Mul(ConvertDType(higher, apart.DType()), l.pair(weight, k)), reach)}
	})[0]
}

// pair is the j-th entry of each leaf, [leaves, 1].
func (l leafPairs) pair(x *Node, j int) *Node { return SliceAxis(x, 1, AxisElem(j)) }

// leafStep is how many steps make a loop: the compiler's time grows faster than their number.
const leafStep = 32

// each sums the terms of each pair of the leaves. The pairs of a loop, from begin to before end, have to do with those of their leaf from one to
// before another, as others says: part takes these out of an array of all.
func (l leafPairs) each(others func(begin, end int) (from, to int), terms func(j int, part func(x *Node) *Node) []*Node) []*Node {
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
		var some []*Node
		for j := begin; j < end; j++ {
			some = add(some, terms(j, part))
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
