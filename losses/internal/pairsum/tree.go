package pairsum

import (
	"github.com/gomlx/compute"
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
// level.go describes a node's work.
//
// If equal q stand on both sides of a leaf's boundary, the tree counts those before as lower. Equal q stand by descending p, so all of these have p_j
// ≥ p_i. The sums over them, which ties.go corrects, need no tree.
type pairTree struct {
	order  pairOrder
	margin float64
	leaves leafPairs
	levels []treeLevel
	ties   leafTies
}

// Tree computes the sums by a tree of the fastest shape in O(N log N) time, for scores in [0, 1], [B, N].
func Tree(p, q *Node, margin float64) Sums {
	shape := fastShape
	shape.Threads = manyThreads(p.Graph().Backend())
	return TreeOf(shape, p, q, margin)
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

func manyThreads(b compute.Backend) threads {
	device, ok := b.(interface{ IsCUDA() bool })
	return threads(ok && device.IsCUDA())
}

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
