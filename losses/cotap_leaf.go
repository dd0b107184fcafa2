package losses

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// leafPairs compares each pair of a leaf of the tree with each other of it. Each step takes one pair of all leaves: XLA makes one loop of
// vectors of all steps, a third of the time of reductions over an axis.
type leafPairs struct {
	p, q   *Node // [leaves, leaf], in the dtype of the scores: differences of scores are exact where they are small.
	margin float64
}

// forward gives Σ_{q_j < q_i} ℓ(p_i − p_j), the slope as pairSums has it, and #{q_j < q_i, p_j ≥ p_i}, over the pairs of i's leaf.
// [leaves·leaf], float64
func (l leafPairs) forward() (huber, slope, above *Node) {
	sums := l.each(func(j int) []*Node {
		apart, lower := Sub(l.pair(l.p, j), l.p), LessThan(l.pair(l.q, j), l.q)
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
	return l.each(func(k int) []*Node {
		apart, higher := Sub(l.p, l.pair(l.p, k)), GreaterThan(l.pair(l.q, k), l.q)
		reach := Sub(MaxScalar(AddScalar(apart, l.margin), 0.0), MaxScalar(apart, 0.0))
		return []*Node{Mul(Mul(ConvertDType(higher, apart.DType()), l.pair(weight, k)), reach)}
	})[0]
}

// pair is the j-th entry of each leaf, [leaves, 1].
func (l leafPairs) pair(x *Node, j int) *Node { return SliceAxis(x, 1, AxisElem(j)) }

// leafStep is how many steps make a loop: the compiler's time grows faster than their number.
const leafStep = 32

// each sums the terms of each pair of the leaves.
func (l leafPairs) each(terms func(j int) []*Node) []*Node {
	add := func(sums, more []*Node) []*Node {
		if sums == nil {
			return more
		}
		for i := range more {
			more[i] = Add(sums[i], more[i])
		}
		return more
	}
	var sums []*Node
	for j, leaf := 0, l.p.Shape().Dimensions[1]; j < leaf; {
		var some []*Node
		for end := min(j+leafStep, leaf); j < end; j++ {
			some = add(some, terms(j))
		}
		for i := range some {
			some[i] = hold(some[i])
		}
		sums = add(sums, some)
	}
	for i := range sums {
		// With a conversion or another shape in it, the loop would not be one of whole vectors.
		sums[i] = Reshape(ConvertDType(sums[i], dtypes.Float64), l.p.Shape().Size())
	}
	return sums
}
