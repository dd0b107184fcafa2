package losses

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// leafPairs compares each pair of a leaf of the tree with those ahead of it or behind.
//
// A leaf is cut into blocks, and each block i meets each block j up to itself. All meetings are alike, so they are one array, and the compiler
// has one loop to make for each sum. A step of the loop takes one pair of each block: XLA makes vectors of the steps, a third of the time of
// reductions over an axis.
type leafPairs struct {
	p, q   *Node // [leaves, blocks, block], by ascending q, in the dtype of the scores: differences of scores are exact where they are small.
	leaf   int
	margin float64
}

// leafBlock is the number of pairs of a block: smaller ones have less to compare for nothing, and more to copy.
const leafBlock = 32

// newLeafPairs cuts p and q, [B, padded], into leaves.
func newLeafPairs(p, q *Node, leaf int, margin float64) leafPairs {
	l := leafPairs{leaf: leaf, margin: margin}
	// No pair has a higher q than what fills the last block, so that is no one's negative.
	l.p, l.q = l.blocks(p, -1), l.blocks(q, 2)
	return l
}

// blocks cuts x, with an entry for each pair, into leaves and blocks, the last one of a leaf filled up.
func (l leafPairs) blocks(x *Node, fill float64) *Node {
	block := min(l.leaf, leafBlock)
	x = Reshape(x, -1, l.leaf)
	if rest := l.leaf % block; rest > 0 {
		g, leaves := x.Graph(), x.Shape().Dimensions[0]
		x = Concatenate([]*Node{x, BroadcastToDims(Scalar(g, x.DType(), fill), leaves, block-rest)}, 1)
	}
	return hold(Reshape(x, x.Shape().Dimensions[0], -1, block))
}

// forward gives Σ_{q_j < q_i} ℓ(p_i − p_j), the slope as pairSums has it, and #{q_j < q_i, p_j ≥ p_i}, over the pairs of i's leaf.
// [leaves·leaf], float64
func (l leafPairs) forward() (huber, slope, above *Node) {
	pI, pJ := l.meet(l.p)
	qI, qJ := l.meet(l.q)
	zero, margin, never := l.all(pI, 0), l.all(pI, l.margin), l.all(pI, math.Inf(-1))
	sums := l.steps(func(j int) []*Node {
		apart := Where(LessThan(l.pair(qJ, j), qI), Sub(l.pair(pJ, j), pI), never)
		wide, near := Max(Add(apart, margin), zero), Max(apart, zero)
		reach := Sub(wide, near)
		return []*Node{Mul(reach, Add(wide, near)), reach, ConvertDType(GreaterOrEqual(apart, zero), apart.DType())}
	})
	collect := func(x *Node) *Node { return l.collect(x, func(i, j int) int { return i }) }
	return DivScalar(collect(sums[0]), l.margin*l.margin), collect(sums[1]), collect(sums[2])
}

// pull gives what pairSums.pull does, over the pairs of i's leaf. weight and the result are [leaves·leaf], float64.
func (l leafPairs) pull(weight *Node) *Node {
	pI, pJ := l.meet(l.p)
	qI, qJ := l.meet(l.q)
	weightI, _ := l.meet(l.blocks(ConvertDType(weight, l.p.DType()), 0))
	zero, margin, never := l.all(pI, 0), l.all(pI, l.margin), l.all(pI, math.Inf(-1))
	sums := l.steps(func(i int) []*Node {
		apart := Where(GreaterThan(l.pair(qI, i), qJ), Sub(pJ, l.pair(pI, i)), never)
		return []*Node{Mul(l.pair(weightI, i), Sub(Max(Add(apart, margin), zero), Max(apart, zero)))}
	})
	return l.collect(sums[0], func(i, j int) int { return j })
}

// meetings calls visit for each block i and each block j ≤ i, in turn.
func (l leafPairs) meetings(visit func(i, j int)) {
	for i := range l.p.Shape().Dimensions[1] {
		for j := range i + 1 {
			visit(i, j)
		}
	}
}

// meet gives the entries of x in the blocks i and j of all meetings. [leaves, meetings, block]
func (l leafPairs) meet(x *Node) (atI, atJ *Node) {
	var blocksI, blocksJ []*Node
	l.meetings(func(i, j int) {
		blocksI = append(blocksI, SliceAxis(x, 1, AxisElem(i)))
		blocksJ = append(blocksJ, SliceAxis(x, 1, AxisElem(j)))
	})
	return Concatenate(blocksI, 1), Concatenate(blocksJ, 1)
}

// collect sums x, [leaves, meetings, block], over the meetings of each block: whose tells which of its blocks a meeting counts for.
// [leaves·leaf], float64
func (l leafPairs) collect(x *Node, whose func(i, j int) int) *Node {
	x = hold(x)
	blocks := make([]*Node, l.p.Shape().Dimensions[1])
	meeting := 0
	l.meetings(func(i, j int) {
		block, found := whose(i, j), SliceAxis(x, 1, AxisElem(meeting))
		if blocks[block] == nil {
			blocks[block] = found
		} else {
			blocks[block] = Add(blocks[block], found)
		}
		meeting++
	})
	all := Reshape(Concatenate(blocks, 1), x.Shape().Dimensions[0], -1)
	return Reshape(ConvertDType(SliceAxis(all, 1, AxisRange(0, l.leaf)), dtypes.Float64), -1)
}

// pair is an entry of each block. [leaves, meetings, 1]
func (l leafPairs) pair(x *Node, at int) *Node { return SliceAxis(x, 2, AxisElem(at)) }

// all is an array of one value.
func (l leafPairs) all(like *Node, value float64) *Node {
	return BroadcastToDims(Scalar(like.Graph(), like.DType(), value), like.Shape().Dimensions...)
}

// steps sums the terms of each pair of a block.
func (l leafPairs) steps(terms func(at int) []*Node) []*Node {
	sums := terms(0)
	for at := 1; at < l.p.Shape().Dimensions[2]; at++ {
		for i, term := range terms(at) {
			sums[i] = Add(sums[i], term)
		}
	}
	return sums
}
