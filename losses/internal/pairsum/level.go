package pairsum

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// treeLevel is a level of the tree. Its nodes of size pairs follow one another. The pairs of a node stand by descending p, so that the pairs with p
// above a bound are those before a place. Arrays have one entry per place, [B·padded].
//
// A strip is radix places. Sums over the parts before a pair's and the strips before a place come from a table in float64, with one entry per part
// and strip of a node. Sums over the rest, the strip that contains the place, are computed pair by pair in the dtype of the scores. Counts within a
// strip are bit counts: another table has, for each part and strip, one bit per pair of the part in the strip.
type treeLevel struct {
	threads
	size, radix int
	margin      float64
	mean        *Node // The mean of p for each image pair, [B, 1] of float64.

	place *Node // Each pair's place, by ascending q.
	near  *Node // p at the place, in the dtype of the scores.
	part  *Node // The part of its node that the pair there belongs to.
	// last is the place of the last pair with p > p_i − τ, and first is the place of the first pair with p < p_i + τ.
	last, first *Node

	// bits mark the pairs of each part in each strip, and ahead counts those in the strips before, both indexed by cell.
	bits, ahead *Node
}

// firstLevel is the level with one node per image pair.
func firstLevel(o pairOrder, margin float64) treeLevel {
	l := treeLevel{threads: o.threads, size: o.padded, radix: o.radix, margin: margin, mean: o.mean,
		place: o.place, near: Reshape(o.byP, o.place.Shape().Size()), last: o.last, first: o.first}
	l.part = arrange(l.place, l.partOf(l.here()))
	return l
}

// here are the places themselves. Adding zeros that the compiler cannot recognise keeps it from slowly evaluating, at compile time, everything that
// depends on places alone.
func (l treeLevel) here() *Node {
	return Add(IotaFull(l.place.Graph(), l.place.Shape()), MinScalar(l.place, 0))
}

// partOf is the part of the node of each pair, where pairs are numbered by ascending q.
func (l treeLevel) partOf(pair *Node) *Node {
	_, inNode := divMod(pair, l.size)
	part, _ := divMod(inNode, l.size/l.radix)
	return part
}

// divMod returns x / by and the remainder, for int32 x ≥ 0.
func divMod(x *Node, by int) (whole, rest *Node) {
	divisor := Scalar(x.Graph(), dtypes.Int32, by)
	whole = Div(x, divisor)
	return whole, Sub(x, Mul(whole, divisor))
}

// score is p minus its mean.
func (l treeLevel) score() *Node {
	score := Sub(Reshape(ConvertDType(l.near, dtypes.Float64), l.mean.Shape().Dimensions[0], -1), l.mean)
	return Reshape(score, l.near.Shape().Size())
}

// begin is the first place of each place's node.
func (l treeLevel) begin() *Node {
	here := l.here()
	_, inNode := divMod(here, l.size)
	return Sub(here, inNode)
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

// tally sums x over the places of each cell. number is as for [threads.unlike].
func (l treeLevel) tally(number int, x *Node) *Node {
	if !l.threads {
		return scatterTo(l.cell(l.here()), x, false)
	}
	part := Iota(x.Graph(), shapes.Make(l.part.DType(), 1, l.radix, 1), 1)
	_, theirs := l.strip(l.part)
	_, x = l.strip(x)
	dims := []int{x.Shape().Dim(0), l.radix, l.radix}
	x = BroadcastToDims(x, dims...)
	theirs, part = l.unlike(number, BroadcastToDims(theirs, dims...), part)
	sums := ReduceSum(Where(Equal(theirs, part), x, ZerosLike(x)), -1)
	return Reshape(Transpose(Reshape(sums, -1, l.size/l.radix, l.radix), 1, 2), -1)
}

// tallyReversed is tally with cells numbered as by reversed.
func (l treeLevel) tallyReversed(number int, x *Node) *Node {
	if !l.threads {
		return scatterTo(l.reversed(l.here()), x, false)
	}
	return Reshape(Reverse(Reshape(l.tally(number, x), -1, l.size), 1), -1)
}

// overStrips sums tables over the strips before, part by part. It returns groups of tables, [tables, B·padded]: one of all, or on a GPU, which would copy
// them out of it, one of each.
func (l treeLevel) overStrips(tables ...*Node) (groups []*Node) {
	if !l.threads {
		tables = []*Node{Stack(tables, 0)}
	}
	for _, table := range tables {
		each := Reshape(table, -1, l.size/l.radix)
		groups = append(groups, Reshape(Sub(l.cumulate(each), each), -1, l.place.Shape().Size()))
	}
	return groups
}

// overParts sums groups of tables over the parts before, strip by strip, and returns the tables.
func (l treeLevel) overParts(groups ...*Node) (each []*Node) {
	if !l.threads && len(groups) > 1 {
		groups = []*Node{Concatenate(groups, 0)}
	}
	for _, tables := range groups {
		sums := l.sumParts(tables)
		for i := range sums.Shape().Dim(0) {
			each = append(each, row(sums, i))
		}
	}
	return each
}

// sumParts is overParts of a group.
func (l treeLevel) sumParts(tables *Node) *Node {
	rows, all := tables.Shape().Dimensions[0], tables.Shape().Dimensions[1]
	square := shapes.Make(tables.DType(), l.radix, l.radix)
	g := tables.Graph()
	before := LessThan(Iota(g, square, 1), Iota(g, square, 0))
	nodes := rows * all / l.size
	if l.threads {
		dims := []int{nodes, l.radix, l.radix, l.size / l.radix}
		each := BroadcastToDims(Reshape(tables, nodes, 1, l.radix, dims[3]), dims...)
		sums := ReduceSum(Where(BroadcastToDims(Reshape(before, 1, l.radix, l.radix, 1), dims...), each, ZerosLike(each)), 2)
		return Reshape(sums, rows, all)
	}
	ahead := ConvertDType(before, tables.DType())
	ahead = BroadcastToDims(InsertAxes(ahead, 0), nodes, l.radix, l.radix)
	// A product per node needs no transposition.
	return Reshape(Einsum("mcd,mds->mcs", ahead, Reshape(tables, nodes, l.radix, l.size/l.radix)), rows, all)
}

// strip arranges x by strips, so that the pair at [.., i, 0] meets those at [.., 0, j]; stripOf uses the strip of place instead.
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
	return Reshape(ConvertDType(ReduceSum(x, -1), dtypes.Float64), l.place.Shape().Size())
}

// forward sums over the parts before each pair's own, as leafPairs.forward does within leaves.
func (l *treeLevel) forward() (huber, slope, above *Node) {
	score, ownCell, last := l.score(), l.cell(l.here()), l.cell(l.last)
	_, inStrip := divMod(l.here(), l.radix)
	bit := BitwiseShiftLeft(OnesLike(inStrip), inStrip)
	l.bits = l.tally(1, bit)
	counts := ConvertDType(BitCount(l.bits), dtypes.Float64)
	strips := l.overStrips(counts, l.tally(2, score), l.tally(3, Square(score)))
	l.ahead = row(strips[0], 0)
	parts := l.overParts(append(strips, ConvertDType(Reshape(l.bits, 1, -1), dtypes.Float64))...)

	// W(x) and Σ [p_j − x]₊ over whole strips.
	read := func(cell, x *Node) (squares, sum, count *Node) {
		count, sum, squares = take(parts[0], cell), take(parts[1], cell), take(parts[2], cell)
		sum = Sub(sum, Mul(x, count))
		return Sub(squares, Mul(x, Add(take(parts[1], cell), sum))), sum, count
	}
	narrowSquares, narrow, above := read(ownCell, score)
	wideSquares, wide, _ := read(last, AddScalar(score, -l.margin))
	lower := ConvertDType(take(parts[3], ownCell), dtypes.Int32)
	above = Add(above, ConvertDType(BitCount(BitwiseAnd(lower, AddScalar(bit, -1))), dtypes.Float64))

	p, others := l.strip(l.near)
	mine, theirs := l.strip(l.part)
	apart, isLower := MaxScalar(Sub(others, p), 0.0), func(number int) *Node { return LessThan(l.unlike(number, theirs, mine)) }
	narrowSquares, narrow = Add(narrowSquares, l.sum(isLower(1), Square(apart))), Add(narrow, l.sum(isLower(2), apart))

	p, others = l.stripOf(l.near, l.last)
	mine, theirs = l.stripOf(l.part, l.last)
	apart = MaxScalar(AddScalar(Sub(others, p), l.margin), 0.0)
	wideSquares, wide = Add(wideSquares, l.sum(isLower(3), Square(apart))), Add(wide, l.sum(isLower(4), apart))
	return DivScalar(Sub(wideSquares, narrowSquares), l.margin*l.margin), Sub(wide, narrow), above
}

// next is the level of the parts.
func (l treeLevel) next() treeLevel {
	partSize := l.size / l.radix
	begin := Add(l.begin(), MulScalar(l.part, partSize))
	// The place within the part is the number of the part's pairs before it.
	move := func(place *Node, including float64) *Node {
		cell := l.cell(place)
		_, inStrip := divMod(place, l.radix)
		one := OnesLike(place)
		before := AddScalar(BitwiseShiftLeft(one, AddScalar(inStrip, including)), -1)
		inStrip = BitCount(BitwiseAnd(take(l.bits, cell), before))
		return Add(begin, Add(ConvertDType(take(l.ahead, cell), dtypes.Int32), inStrip))
	}
	moved := l.hold(move(l.here(), 0))
	next := l
	next.size = partSize
	next.place = l.hold(take(moved, l.place))
	next.near = arrange(moved, l.near)
	next.last, next.first = arrange(moved, AddScalar(move(l.last, 1), -1)), arrange(moved, move(l.first, 0))
	next.part = arrange(next.place, next.partOf(l.here()))
	return next
}

// pull sums over the parts after each pair's own, as leafPairs.pull does within leaves. weight is by ascending q.
func (l treeLevel) pull(weight *Node) *Node {
	score, ownCell, first := l.score(), l.reversed(l.here()), l.reversed(l.first)
	weight = arrange(l.place, ConvertDType(weight, l.near.DType()))
	wide64 := ConvertDType(weight, dtypes.Float64)
	parts := l.overParts(l.overStrips(l.tallyReversed(4, wide64), l.tallyReversed(5, Mul(wide64, score)))...)

	// Σ weight_k [x − p_k]₊ over whole strips.
	read := func(cell, x *Node) *Node {
		return Sub(Mul(x, take(parts[0], cell)), take(parts[1], cell))
	}
	narrow, wide := read(ownCell, score), read(first, AddScalar(score, l.margin))

	p, others := l.strip(l.near)
	mine, theirs := l.strip(l.part)
	_, weights := l.strip(weight)
	narrow = Add(narrow, l.sum(GreaterThan(theirs, mine), Mul(weights, MaxScalar(Sub(p, others), 0.0))))

	p, others = l.stripOf(l.near, l.first)
	mine, theirs = l.stripOf(l.part, l.first)
	_, weights = l.stripOf(weight, l.first)
	wide = Add(wide, l.sum(GreaterThan(theirs, mine), Mul(weights, MaxScalar(AddScalar(Sub(p, others), l.margin), 0.0))))
	return Sub(wide, narrow)
}
