package losses

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// pairTree finds the sums over pairs of pairs with a merge tree, in a time of order N log N.
//
// ℓ(x) = ([τ−x]₊² − [−x]₊²)/τ² is quadratic between its knots, so the sums of a pair over pairs of lower q are sums of 1, p and p² over those
// with p_j ≥ p_i and those with p_j > p_i − τ. The pairs stand by ascending q, and a node of the tree is a stretch of them. Within a node
// its pairs also have an order by descending p, and in it the two conditions are prefixes that end at places kept for each pair. A
// node adds to each pair of its right half what the left half holds in the prefixes, read from cumulative sums; then the places move
// on to the halves, by counting. Leaves are short enough to compare each pair with each. Going back, a node adds to each pair of its left half
// what pulls at it from the right half.
//
// Where equal q stand on both sides of a leaf's boundary, the tree counts the ones before as lower. Equal q stand by descending p, so all
// of these have p_j ≥ p_i, and the sums over them, of which ties takes care, need no tree.
type pairTree struct {
	order  pairOrder
	margin float64
	levels []treeLevel
	ties   leafTies
}

// treeLevel is a level of the tree: nodes of size pairs, all nodes of all image pairs one after another, so that a place in its order by
// descending p is a place among all pairs.
type treeLevel struct {
	size int
	// pair is the pair at each place of the order, and left tells whether it is of its node's left half.
	pair, left *Node
	// own is the place of each pair, last that of the last pair with p > p_i − τ, and first that of the first with p < p_i + τ.
	own, last, first *Node
}

func newPairTree(p, q *Node, margin float64) pairSums {
	order := newPairOrder(p, q, margin)
	return &pairTree{order: order, margin: margin, ties: newLeafTies(order)}
}

func (t *pairTree) target() (q, valid *Node) { return t.order.q, t.order.valid }

func (t *pairTree) forward() (huber, same, slope *Node) {
	o := t.order
	g, all := o.p.Graph(), o.p.Shape().Size()
	p := Reshape(o.centred, all)
	// The sum with zeros that the compiler does not know for zeros keeps it from working out in advance, slowly, all that depends on
	// positions alone.
	pair := Add(IotaFull(g, shapes.Make(dtypes.Int32, all)), MinScalar(o.places[0], 0))

	huber, above, slope := t.leaves().sums(And)
	huber, above, slope = Reshape(huber, all), Reshape(above, all), Reshape(slope, all)
	tiedHuber, tiedSlope, tiedAbove := t.ties.forward(t.margin)
	huber, slope, above = Sub(huber, tiedHuber), Sub(slope, tiedSlope), Sub(above, tiedAbove)

	places := o.places
	for size := o.padded; size > o.leaf; size /= 2 {
		half := size / 2
		level := treeLevel{size: size, own: places[0], last: places[1], first: places[2]}
		level.pair = Scatter(InsertAxes(level.own, -1), pair, shapes.Make(dtypes.Int32, all), false, true)
		level.left = LessThan(Mod(level.pair, Scalar(g, dtypes.Int32, size)), Scalar(g, dtypes.Int32, half))
		t.levels = append(t.levels, level)

		// Sums of 1, p and p² over the left half, from the node's beginning.
		at := take(p, level.pair)
		leftCount := ConvertDType(level.left, dtypes.Float64)
		leftSum := Mul(leftCount, at)
		sums := cumulate(Reshape(Stack([]*Node{leftCount, leftSum, Mul(leftSum, at)}, 0), 3*all/size, size))
		sums = Reshape(sums, 3, all)
		count := ConvertDType(row(sums, 0), dtypes.Int32)

		// What the right half's pairs find in the left half.
		mine, own, last := right(p, half), right(level.own, half), right(level.last, half)
		notBelow := [3]*Node{take(row(sums, 0), own), take(row(sums, 1), own), take(row(sums, 2), own)}
		window := [3]*Node{}
		for moment := range window {
			window[moment] = Sub(take(row(sums, moment), last), notBelow[moment])
		}
		reach := AddScalar(Neg(mine), t.margin)
		found := MulScalar(notBelow[0], t.margin*t.margin)
		found = Add(found, MulScalar(Sub(notBelow[1], Mul(mine, notBelow[0])), 2*t.margin))
		found = Add(found, Add(window[2], Mul(reach, Add(MulScalar(window[1], 2), Mul(reach, window[0])))))
		slopes := Add(MulScalar(notBelow[0], t.margin), Add(window[1], Mul(reach, window[0])))
		each := hold(Stack([]*Node{DivScalar(found, t.margin*t.margin), slopes, notBelow[0]}, 0))
		huber, slope, above = Add(huber, onlyRight(row(each, 0))), Add(slope, onlyRight(row(each, 1))), Add(above, onlyRight(row(each, 2)))

		places = level.descend(pair, count)
	}
	same = Sub(o.notBelow, Reshape(above, o.p.Shape().Dimensions...))
	// Differences of sums leave rounding noise where there is nothing.
	huber = MaxScalar(Reshape(huber, o.p.Shape().Dimensions...), 0.0)
	return huber, same, Reshape(slope, o.p.Shape().Dimensions...)
}

// descend turns a level's places into those in the halves of its nodes. count is the number of pairs of the left half up to each place.
func (l treeLevel) descend(pair, count *Node) [3]*Node {
	g, half := pair.Graph(), l.size/2
	int32s := func(value int) *Node { return Scalar(g, dtypes.Int32, value) }
	begin := Mul(Div(pair, int32s(l.size)), int32s(l.size))
	isLeft := LessThan(Sub(pair, begin), int32s(half))
	move := func(place, upTo *Node, inLeft *Node) *Node {
		return hold(Where(isLeft, Add(begin, inLeft), Sub(Add(place, int32s(half)), upTo)))
	}
	// The prefixes of own and last end with their places, that of first ends ahead of it.
	upToOwn, upToLast := take(count, l.own), take(count, l.last)
	aheadOfFirst := Sub(take(count, l.first), ConvertDType(take(l.left, l.first), dtypes.Int32))
	return [3]*Node{
		move(l.own, upToOwn, AddScalar(upToOwn, -1)), move(l.last, upToLast, AddScalar(upToLast, -1)), move(l.first, aheadOfFirst, aheadOfFirst),
	}
}

// leaves compares the pairs of each leaf: each is an image pair to [allPairs], in the dtype of the inputs.
func (t *pairTree) leaves() allPairs {
	o := t.order
	each := func(x *Node) *Node { return Reshape(ConvertDType(x, o.dtype), o.p.Shape().Size()/o.leaf, o.leaf) }
	return allPairs{each(o.p), each(o.q), t.margin}
}

func (t *pairTree) pull(weight *Node) *Node {
	o := t.order
	all := o.p.Shape().Size()
	weight = Reshape(hold(weight), all)

	pull := Reshape(t.leaves().pull(Reshape(weight, all/o.leaf, o.leaf)), all)
	pull = Sub(pull, t.ties.pull(weight, t.margin))

	p := Reshape(o.centred, all)
	for _, level := range t.levels {
		half := level.size / 2
		// Weights, and weights times p, of the right half.
		heavy := Where(level.left, ZerosLike(weight), take(weight, level.pair))
		each := Reshape(Stack([]*Node{heavy, Mul(heavy, take(p, level.pair))}, 0), 2*all/level.size, level.size)
		upTo := cumulate(each)
		total := Reshape(SliceAxis(SliceAxis(upTo, 1, AxisElem(level.size-1)), 0, AxisRange(0, all/level.size)), all/level.size, 1)
		before := Reshape(Sub(upTo, each), 2, all)

		mine, own, first := left(p, half), left(level.own, half), left(level.first, half)
		beyond := take(row(before, 0), first)
		window := Sub(take(row(before, 0), own), beyond)
		windowSum := Sub(take(row(before, 1), own), take(row(before, 1), first))
		found := Add(MulScalar(Sub(total, beyond), t.margin), Sub(Mul(mine, window), windowSum))
		pull = Add(pull, onlyLeft(hold(found)))
	}
	return Reshape(pull, o.p.Shape().Dimensions...)
}

func (t *pairTree) restore(entries *Node) *Node { return t.order.restore(entries) }

// row is x[i] of a matrix.
func row(x *Node, i int) *Node { return Squeeze(SliceAxis(x, 0, AxisElem(i)), 0) }

// take is x[index], for each entry of index.
func take(x, index *Node) *Node { return Gather(x, InsertAxes(index, -1)) }

// left and right are the halves of the nodes of x, [all], as [nodes, half].
func left(x *Node, half int) *Node {
	return Squeeze(SliceAxis(Reshape(x, x.Shape().Size()/(2*half), 2, half), 1, AxisElem(0)), 1)
}

func right(x *Node, half int) *Node {
	return Squeeze(SliceAxis(Reshape(x, x.Shape().Size()/(2*half), 2, half), 1, AxisElem(1)), 1)
}

// onlyLeft and onlyRight are the inverses of left and right, with zeros for the other half.
func onlyLeft(x *Node) *Node { return Reshape(Stack([]*Node{x, ZerosLike(x)}, 1), 2*x.Shape().Size()) }

func onlyRight(x *Node) *Node { return Reshape(Stack([]*Node{ZerosLike(x), x}, 1), 2*x.Shape().Size()) }

// hold is x, [R, n] of integers or floats, computed once: XLA repeats long chains of cheap operations in each consumer, but not a scatter.
func hold(x *Node) *Node {
	g := x.Graph()
	all := x.Shape().Size()
	flat := Scatter(IotaFull(g, shapes.Make(dtypes.Int32, all, 1)), Reshape(x, all), shapes.Make(x.DType(), all), true, true)
	return Reshape(flat, x.Shape().Dimensions...)
}
