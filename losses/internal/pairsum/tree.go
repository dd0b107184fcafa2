package pairsum

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// pairTree computes the sums over pairs of pairs by a tree of few levels, in O(N log N) time.
//
// ℓ(x) = ([τ−x]₊² − [−x]₊²)/τ², so a pair's sum over the pairs of lower q is W(p_i − τ) − W(p_i) with W(x) = Σ [p_j − x]₊², and the slope the same
// with Σ [p_j − x]₊. The pairs stand by ascending q. A node of the tree is a range of them, and its parts are shorter ranges: a node adds to each of
// its pairs the sums over the parts before the pair's own part. Leaves are short enough to compare all their pairs. In the backward pass, a node adds
// the sums over the parts after.
//
// If equal q stand on both sides of a leaf's boundary, the tree counts those before as lower. Equal q stand by descending p, so all of these have p_j
// ≥ p_i. The sums over them, which [leafTies] corrects, need no tree.
type pairTree struct {
	order  pairOrder
	margin float64
	leaves leafPairs
	levels []treeLevel
	ties   leafTies
}

// Tree computes the sums by a tree of the fastest shape in O(N log N) time, for scores in [0, 1], [B, N].
func Tree(p, q *Node, margin float64) Sums {
	device, known := p.Graph().Backend().(interface{ IsCUDA() bool })
	fast := Shape{Leaf: 160, Radix: 16, Threads: threads(known && device.IsCUDA())}
	return TreeOf(fast, p, q, margin)
}

// TreeOf is [Tree] with a given shape.
func TreeOf(shape Shape, p, q *Node, margin float64) Sums {
	order := newPairOrder(p, q, margin, shape)
	return &pairTree{order: order, margin: margin, leaves: newLeafPairs(order, margin), ties: newLeafTies(order)}
}

func (t *pairTree) Target() (q, valid *Node) {
	return ConvertDType(t.order.q, dtypes.Float64), t.order.valid
}

func (t *pairTree) Forward() (huber, same, slope *Node) {
	o := t.order
	dims := o.p.Shape().Dimensions
	huber, slope, above := t.leaves.forward()
	tiedHuber, tiedSlope, tiedAbove := t.ties.forward(t.margin)
	huber, slope, above = Sub(huber, tiedHuber), Sub(slope, tiedSlope), Sub(above, tiedAbove)

	for size := o.padded; size > o.leaf; size /= o.radix {
		var level treeLevel
		if len(t.levels) == 0 {
			level = firstLevel(o, t.margin)
		} else {
			level = t.levels[len(t.levels)-1].next()
		}
		levelHuber, levelSlope, levelAbove := level.forward()
		add := func(sums, terms *Node) *Node { return Add(sums, take(o.hold(terms), level.place)) }
		huber, slope, above = add(huber, levelHuber), add(slope, levelSlope), add(above, levelAbove)
		t.levels = append(t.levels, level)
	}
	same = Sub(o.notBelow, Reshape(above, dims...))
	// Differences of sums leave rounding noise where the sum is zero.
	huber = MaxScalar(Reshape(huber, dims...), 0.0)
	return huber, same, Reshape(slope, dims...)
}

func (t *pairTree) Pull(weight *Node) *Node {
	o := t.order
	weight = Reshape(o.hold(weight), o.p.Shape().Size())
	pull := Sub(t.leaves.pull(weight), t.ties.pull(weight, t.margin))
	for _, level := range t.levels {
		pull = Add(pull, take(o.hold(level.pull(weight)), level.place))
	}
	return Reshape(pull, o.p.Shape().Dimensions...)
}

func (t *pairTree) Restore(entries *Node) *Node { return t.order.restore(entries) }

// row is x[i] of a matrix.
func row(x *Node, i int) *Node { return Squeeze(SliceAxis(x, 0, AxisElem(i)), 0) }

// take is x[index] for each entry of index.
func take(x, index *Node) *Node { return Gather(x, InsertAxes(index, -1)) }

// threads says whether the device has thousands of threads: a GPU.
type threads bool

// hold makes x, of integers or floats, computed once: XLA repeats long chains of cheap operations in each consumer, but it does not repeat a scatter,
// except one of a single row. This scatter takes the larger of each entry and itself. A GPU repeats only what costs less than memory.
func (t threads) hold(x *Node) *Node {
	if t {
		return x
	}
	rows := x
	if x.Shape().Dimensions[0] == 1 {
		rows = Reshape(x, x.Shape().Size())
	}
	each := IotaFull(x.Graph(), shapes.Make(dtypes.Int32, rows.Shape().Dimensions[0], 1))
	return Reshape(ScatterMax(rows, each, rows, true, true), x.Shape().Dimensions...)
}

// unlike makes comparing x and y, integers, look different from comparing them with another number. A GPU keeps a mask that several passes take, with an
// entry for every two pairs that meet, and reading that takes longer than comparing again.
func (t threads) unlike(number int, x, y *Node) (*Node, *Node) {
	if !t {
		return x, y
	}
	return AddScalar(x, number), AddScalar(y, number)
}

// scatterTo adds the entries of x, integers ≥ 0 or finite floats, to their places.
//
// The initial zeros depend on x. Plain zeros would be allocated early and hold memory for all scatters at once.
func scatterTo(place, x *Node, unique bool) *Node {
	var zeros *Node
	if x.DType().IsFloat() {
		zeros = MulScalar(x, 0.0)
	} else {
		zeros = MinScalar(x, 0)
	}
	return ScatterSum(zeros, InsertAxes(place, -1), x, false, unique)
}

// leafPairs compares each pair of a leaf of the tree with those before or after it.
//
// On a GPU all pairs of a leaf meet in one reduction. Elsewhere a leaf is cut into blocks, and each block i meets each block j ≤ i. All meetings are alike, so they form one array, and the compiler makes one loop
// for each sum. A step of the loop takes one pair of each block. XLA vectorises the steps; this takes a third of the time of reductions over an axis.
type leafPairs struct {
	threads
	p, q   meeting // By ascending q, in the dtype of the scores: differences of scores are exact where they are small.
	leaf   int
	margin float64
	// Constants in the shape of a meeting. Shared by all steps, they compile faster.
	zero, margins, never *Node
}

// meeting holds the entries of the blocks i and j of all meetings, [leaves, meetings, block]. On a GPU a leaf is one block, and i is [leaves, leaf, 1] and j
// [leaves, 1, leaf].
type meeting struct{ i, j *Node }

// leafBlock is the number of pairs in a block: smaller blocks make fewer useless comparisons and more copies.
const leafBlock = 32

// newLeafPairs cuts the pairs into leaves.
func newLeafPairs(o pairOrder, margin float64) leafPairs {
	p, q := o.p, o.q
	l := leafPairs{threads: o.threads, leaf: o.leaf, margin: margin}
	// The padding of the last block has the highest q, so it is never a negative.
	l.p, l.q = l.meet(p, -1), l.meet(q, 2)
	dims := l.p.i.Shape().Dimensions
	if l.threads {
		dims = []int{dims[0], l.leaf, l.leaf}
	}
	all := func(value float64) *Node { return BroadcastToDims(Scalar(p.Graph(), p.DType(), value), dims...) }
	l.zero, l.margins, l.never = all(0), all(margin), all(math.Inf(-1))
	return l
}

// forward returns Σ_{q_j < q_i} ℓ(p_i − p_j), the slope as in [Sums], and #{q_j < q_i, p_j ≥ p_i}, over the pairs of i's leaf: [leaves·leaf] of float64.
func (l leafPairs) forward() (huber, slope, above *Node) {
	sums := l.steps(2, func(j int) []*Node {
		apart := func(isLower *Node) *Node { return Where(isLower, Sub(l.pair(l.p.j, j), l.p.i), l.never) }
		first := apart(LessThan(l.pair(l.q.j, j), l.q.i))
		second, third := first, first
		if l.threads {
			second, third = apart(l.above(l.q.i, l.q.j, 2)), apart(l.above(l.q.i, l.q.j, 4))
		}
		wide, near := l.reach(first)
		return []*Node{Mul(Sub(wide, near), Add(wide, near)), Sub(l.reach(second)), ConvertDType(GreaterOrEqual(third, l.zero), third.DType())}
	})
	collect := func(x *Node) *Node { return l.collect(x, func(i, j int) int { return i }) }
	return DivScalar(collect(sums[0]), l.margin*l.margin), collect(sums[1]), collect(sums[2])
}

// pull is [Sums.Pull] over the pairs of i's leaf. weight and the result are [leaves·leaf] of float64.
func (l leafPairs) pull(weight *Node) *Node {
	weights := l.meet(ConvertDType(weight, l.p.i.DType()), 0)
	isHigher := func(i int) *Node { return GreaterThan(l.pair(l.q.i, i), l.q.j) }
	if l.threads {
		isHigher = func(int) *Node { return l.above(l.q.i, l.q.j, 8) }
	}
	sums := l.steps(1, func(i int) []*Node {
		apart := Where(isHigher(i), Sub(l.p.j, l.pair(l.p.i, i)), l.never)
		return []*Node{Mul(l.pair(weights.i, i), Sub(l.reach(apart)))}
	})
	return l.collect(sums[0], func(i, j int) int { return j })
}

// above is x > y, of scores, in another form for each factor, a power of two: see [threads.unlike].
func (l leafPairs) above(x, y *Node, factor float64) *Node {
	return GreaterThan(MulScalar(x, factor), MulScalar(y, factor))
}

// reach is [margin + apart]₊ and [apart]₊.
func (l leafPairs) reach(apart *Node) (wide, near *Node) {
	return Max(Add(apart, l.margins), l.zero), Max(apart, l.zero)
}

// blockSize is the number of pairs in a block.
func (l leafPairs) blockSize() int { return min(l.leaf, leafBlock) }

// blocks is the number of blocks in a leaf.
func (l leafPairs) blocks() int { return (l.leaf-1)/l.blockSize() + 1 }

// meetings calls visit for each block i and each block j ≤ i, in turn.
func (l leafPairs) meetings(visit func(i, j int)) {
	for i := range l.blocks() {
		for j := range i + 1 {
			visit(i, j)
		}
	}
}

// meet cuts x, with one entry per pair, into leaves and blocks, and pads the last block of each leaf.
func (l leafPairs) meet(x *Node, fill float64) meeting {
	g := x.Graph()
	x = Reshape(x, -1, l.leaf)
	if l.threads {
		return meeting{InsertAxes(x, -1), InsertAxes(x, 1)}
	}
	leaves, block := x.Shape().Dimensions[0], l.blockSize()
	if rest := l.blocks()*block - l.leaf; rest > 0 {
		x = Concatenate([]*Node{x, BroadcastToDims(Scalar(g, x.DType(), fill), leaves, rest)}, 1)
	}
	x = l.hold(Reshape(x, leaves, -1, block))
	var blocksI, blocksJ []*Node
	l.meetings(func(i, j int) {
		blocksI = append(blocksI, SliceAxis(x, 1, AxisElem(i)))
		blocksJ = append(blocksJ, SliceAxis(x, 1, AxisElem(j)))
	})
	return meeting{Concatenate(blocksI, 1), Concatenate(blocksJ, 1)}
}

// collect sums x, [leaves, meetings, block], over the meetings of each block; whose says for which of its blocks a meeting counts. The result is
// [leaves·leaf] of float64.
func (l leafPairs) collect(x *Node, whose func(i, j int) int) *Node {
	if l.threads {
		return ConvertDType(Reshape(x, -1), dtypes.Float64)
	}
	x = l.hold(x)
	blocks := make([]*Node, l.blocks())
	meeting := 0
	l.meetings(func(i, j int) {
		block, term := whose(i, j), SliceAxis(x, 1, AxisElem(meeting))
		if blocks[block] == nil {
			blocks[block] = term
		} else {
			blocks[block] = Add(blocks[block], term)
		}
		meeting++
	})
	all := Reshape(Concatenate(blocks, 1), x.Shape().Dimensions[0], -1)
	return Reshape(ConvertDType(SliceAxis(all, 1, AxisRange(0, l.leaf)), dtypes.Float64), -1)
}

// pair is one entry of each block, [leaves, meetings, 1].
func (l leafPairs) pair(x *Node, at int) *Node {
	if l.threads {
		return x // All at once.
	}
	return SliceAxis(x, 2, AxisElem(at))
}

// steps sums the terms of each pair of a block. On a GPU, all terms are along an axis.
func (l leafPairs) steps(axis int, terms func(at int) []*Node) []*Node {
	sums := terms(0)
	for at := 1; at < l.blockSize() && !bool(l.threads); at++ {
		for i, term := range terms(at) {
			sums[i] = Add(sums[i], term)
		}
	}
	for i := range sums {
		if l.threads {
			sums[i] = ReduceSum(sums[i], axis)
		}
	}
	return sums
}
