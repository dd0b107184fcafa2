package losses

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// treeLevel is a level of the tree. Its nodes, of size pairs each, stand one after another, the pairs of a node by descending p, so that the
// pairs of p above a bound are those ahead of a place. Arrays have an entry for each such place, [B·padded].
//
// Strips are radix places each. Sums over the parts ahead of a pair's and the strips ahead of a place are read from a table with an entry for
// each part and strip of a node, in float64; those over the rest, the strip that the place is in, are made pair by pair, in the dtype
// of the scores.
type treeLevel struct {
	size, radix int
	margin      float64
	scores      *Node // p by ascending q, in float64 less the mean of all.
	nears       *Node // The same in the dtype of the scores, and not less the mean.

	here        *Node // The place itself.
	score, near *Node // The scores there.
	part        *Node // Which of its node's parts the pair there is of.
	pair        *Node // The pair there, as numbered by ascending q.
	// last is the place of the last pair with p > p_i − τ, and first that of the first with p < p_i + τ.
	last, first *Node

	// ahead are the numbers of pairs of each part in the strips ahead, as counts has it.
	ahead *Node
}

// firstLevel is the level of one node for each image pair.
func firstLevel(o pairOrder, margin float64) treeLevel {
	g, all := o.p.Graph(), o.p.Shape().Size()
	// The sum with zeros that the compiler does not know for zeros keeps it from working out in advance, slowly, all that depends on
	// places alone.
	here := Add(IotaFull(g, shapes.Make(dtypes.Int32, all)), MinScalar(o.places[0], 0))
	l := treeLevel{size: o.padded, radix: o.radix, margin: margin, scores: Reshape(o.centred, all),
		nears: Reshape(ConvertDType(o.p, o.dtype), all), here: here}
	l.pair, l.last, l.first = arrange(o.places[0], here), arrange(o.places[0], o.places[1]), arrange(o.places[0], o.places[2])
	return l.lookUp()
}

// lookUp fills in what follows from the pairs.
func (l treeLevel) lookUp() treeLevel {
	_, inNode := divMod(l.pair, l.size)
	part, _ := divMod(inNode, l.size/l.radix)
	l.part, l.score, l.near = hold(part), hold(take(l.scores, l.pair)), hold(take(l.nears, l.pair))
	return l
}

// arrange puts each entry of x to its place.
func arrange(place, x *Node) *Node {
	return Scatter(InsertAxes(place, -1), x, x.Shape(), false, true)
}

// divMod are x / by and the rest, for int32 x ≥ 0.
func divMod(x *Node, by int) (whole, rest *Node) {
	divisor := Scalar(x.Graph(), dtypes.Int32, by)
	whole = Div(x, divisor)
	return whole, Sub(x, Mul(whole, divisor))
}

// begin is where each place's node begins.
func (l treeLevel) begin() *Node {
	_, inNode := divMod(l.here, l.size)
	return Sub(l.here, inNode)
}

// cell is the table's entry for the pair's part and the strip of place.
func (l treeLevel) cell(place *Node) *Node {
	begin := l.begin()
	strip, _ := divMod(Sub(place, begin), l.radix)
	return Add(Add(begin, MulScalar(l.part, l.size/l.radix)), strip)
}

// reversed is cell with parts and strips numbered from the end.
func (l treeLevel) reversed(place *Node) *Node {
	return Sub(AddScalar(MulScalar(l.begin(), 2), l.size-1), l.cell(place))
}

// tables sums each of the moments over the strips ahead, part by part, and also over the parts ahead.
func (l treeLevel) tables(cell *Node, moments ...*Node) (strips *Node, parts []*Node) {
	all, stripsOfNode := l.here.Shape().Size(), l.size/l.radix
	sums := make([]*Node, len(moments))
	for i, moment := range moments {
		sums[i] = Scatter(InsertAxes(cell, -1), moment, moment.Shape(), false, false)
	}
	each := Reshape(Stack(sums, 0), len(moments)*all/stripsOfNode, stripsOfNode)
	strips = Sub(cumulate(each), each)
	square := shapes.Make(each.DType(), l.radix, l.radix)
	ahead := ConvertDType(LessThan(Iota(each.Graph(), square, 1), Iota(each.Graph(), square, 0)), each.DType())
	both := Einsum("cd,mds->mcs", ahead, Reshape(strips, len(moments)*all/l.size, l.radix, stripsOfNode))
	both = Reshape(both, len(moments), all)
	for i := range moments {
		parts = append(parts, row(both, i))
	}
	return Reshape(strips, len(moments), all), parts
}

// strip is x by strips, so that the pair at [.., i, 0] meets those at [.., 0, j]; stripOf gives those of the strip of place instead.
func (l treeLevel) strip(x *Node) (i, j *Node) {
	x = Reshape(x, x.Shape().Size()/l.radix, l.radix)
	return InsertAxes(x, -1), InsertAxes(x, 1)
}

func (l treeLevel) stripOf(x, place *Node) (i, j *Node) {
	strip, _ := divMod(place, l.radix)
	return InsertAxes(x, -1), take(Reshape(x, x.Shape().Size()/l.radix, l.radix), strip)
}

// sum is the sum over j of x where mask holds, [B·padded], in float64.
func (l treeLevel) sum(mask, x *Node) *Node {
	x = Where(mask, x, ZerosLike(x))
	return Reshape(ConvertDType(ReduceSum(x, -1), dtypes.Float64), l.here.Shape().Size())
}

func (l treeLevel) count(mask *Node) *Node {
	return Reshape(ReduceSum(ConvertDType(mask, dtypes.Int32), -1), l.here.Shape().Size())
}

// forward gives what the parts ahead of each pair's hold, as leafPairs.forward does for leaves.
func (l *treeLevel) forward() (huber, slope, above *Node) {
	score, near, part := l.score, l.near, l.part
	own, last := l.cell(l.here), l.cell(l.last)
	strips, parts := l.tables(own, OnesLike(score), score, Square(score))
	l.ahead = row(strips, 0)

	// W(x) and Σ [p_j − x]₊ over whole strips.
	read := func(cell, x *Node) (squares, sum, count *Node) {
		count, sum, squares = take(parts[0], cell), take(parts[1], cell), take(parts[2], cell)
		sum = Sub(sum, Mul(x, count))
		return Sub(squares, Mul(x, Add(take(parts[1], cell), sum))), sum, count
	}
	narrowSquares, narrow, above := read(own, score)
	wideSquares, wide, _ := read(last, AddScalar(score, -l.margin))

	p, others := l.strip(near)
	mine, theirs := l.strip(part)
	place, places := l.strip(l.here)
	apart := MaxScalar(Sub(others, p), 0.0)
	lower := LessThan(theirs, mine)
	narrowSquares, narrow = Add(narrowSquares, l.sum(lower, Square(apart))), Add(narrow, l.sum(lower, apart))
	above = Add(above, ConvertDType(l.count(And(lower, LessThan(places, place))), dtypes.Float64))

	p, others = l.stripOf(near, l.last)
	mine, theirs = l.stripOf(part, l.last)
	apart = MaxScalar(AddScalar(Sub(others, p), l.margin), 0.0)
	lower = LessThan(theirs, mine)
	wideSquares, wide = Add(wideSquares, l.sum(lower, Square(apart))), Add(wide, l.sum(lower, apart))
	return DivScalar(Sub(wideSquares, narrowSquares), l.margin*l.margin), Sub(wide, narrow), above
}

// next is the level of the parts.
func (l treeLevel) next() treeLevel {
	part, partSize := l.part, l.size/l.radix
	begin := Add(l.begin(), MulScalar(part, partSize))
	// The place in the part is the number of the part's pairs ahead.
	move := func(place *Node, mine, theirs *Node, including int) *Node {
		whole := ConvertDType(take(l.ahead, l.cell(place)), dtypes.Int32)
		_, inStrip := divMod(place, l.radix)
		j := Iota(place.Graph(), shapes.Make(dtypes.Int32, 1, l.radix), 1)
		ahead := LessThan(j, InsertAxes(AddScalar(inStrip, including), -1))
		same := Equal(theirs, mine)
		return Add(begin, Add(whole, l.count(And(Reshape(same, -1, l.radix), ahead))))
	}
	mine, theirs := l.strip(part)
	own := hold(move(l.here, mine, theirs, 0))
	mine, theirs = l.stripOf(part, l.last)
	last := AddScalar(move(l.last, mine, theirs, 1), -1)
	mine, theirs = l.stripOf(part, l.first)
	first := move(l.first, mine, theirs, 0)

	next := l
	next.size = partSize
	next.pair, next.last, next.first = arrange(own, l.pair), arrange(own, last), arrange(own, first)
	return next.lookUp()
}

// pull gives how the parts behind each pair's pull at it, as leafPairs.pull does for leaves. weight is by ascending q.
func (l treeLevel) pull(weight *Node) *Node {
	score, near, part := l.score, l.near, l.part
	weight = hold(take(weight, l.pair))
	own, first := l.reversed(l.here), l.reversed(l.first)
	_, parts := l.tables(own, weight, Mul(weight, score))

	// Σ weight_k [x − p_k]₊ over whole strips.
	read := func(cell, x *Node) *Node {
		return Sub(Mul(x, take(parts[0], cell)), take(parts[1], cell))
	}
	narrow, wide := read(own, score), read(first, AddScalar(score, l.margin))

	weight = ConvertDType(weight, near.DType())
	p, others := l.strip(near)
	mine, theirs := l.strip(part)
	_, weights := l.strip(weight)
	narrow = Add(narrow, l.sum(GreaterThan(theirs, mine), Mul(weights, MaxScalar(Sub(p, others), 0.0))))

	p, others = l.stripOf(near, l.first)
	mine, theirs = l.stripOf(part, l.first)
	_, weights = l.stripOf(weight, l.first)
	wide = Add(wide, l.sum(GreaterThan(theirs, mine), Mul(weights, MaxScalar(AddScalar(Sub(p, others), l.margin), 0.0))))
	return Sub(wide, narrow)
}
