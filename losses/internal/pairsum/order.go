package pairsum

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/samber/lo"
)

// Shape is the shape of a tree.
type Shape struct {
	Leaf  int // Largest number of pairs in a leaf, up to rounding: comparing that many costs about as much as a level.
	Radix int // Largest number of parts of a node, up to 30: a strip has as many pairs, with one bit of an int32 each.
	// Threads chooses, at the same results, what a device of thousands of threads does faster and always in the same order: more work in fewer passes over
	// memory, and reductions for scatters.
	Threads threads
}

// pairOrder holds the pairs of B image pairs by ascending q, and at equal q by descending p. They are padded from N to a leaf size times a power of the radix.
// Arrays are [B, padded]. A pair's place is its position by descending p.
type pairOrder struct {
	threads
	n, padded, leaf, radix int

	p, q     *Node // Scores by ascending q, in their dtype, or in float32 for shorter ones.
	byP      *Node // p by place.
	mean     *Node // The mean of p, [B, 1] of float64. Sums of squares of close scores keep their digits without it.
	valid    *Node // False for padding.
	notBelow *Node // #{p_j ≥ p_i}, in float64.
	place    *Node // Each pair's place among the pairs of all image pairs, [B·padded] of int32.
	// last is the place of the last pair with p > p_i − τ, first of the first pair with p < p_i + τ, by the place of i: [B·padded] of int32.
	last, first *Node

	keys, code *Node // The codes of p: sorted, and in the order of the inputs. [B, N]
	index      *Node // On a GPU, the input at each place, [B, N] of int32; nil elsewhere.
}

// divide returns the number of parts of a node, the size of a leaf, and the number of pairs of a tree of n pairs with padding.
func (s Shape) divide(n int) (radix, leaf, padded int) {
	leaves, levels := (n-1)/s.Leaf+1, 0
	for whole := 1; whole < leaves; whole *= s.Radix {
		levels++
	}
	power := func(base int) int { return int(math.Pow(float64(base), float64(levels))) } // Exact for so few levels.
	for radix = 1; power(radix) < leaves; {
		radix++
	}
	// Multiples of 8 have the divisors that cumulate needs.
	multiple := min(8, s.Leaf)
	leaf = ((n-1)/power(radix)/multiple + 1) * multiple
	return radix, leaf, leaf * power(radix)
}

// newPairOrder sorts pairs with scores in [0, 1], [B, N].
//
// XLA sorts single integers fast. So each score becomes a 31-bit code of the same order, a sort of (p, q) gives places, and these tell pairs apart in
// a second sort, of (q, place). On a GPU the first sort moves the pairs' numbers, too, since a search for each pair takes longer.
func newPairOrder(p, q *Node, margin float64, shape Shape) pairOrder {
	g := p.Graph()
	batch, n := p.Shape().Dimensions[0], p.Shape().Dimensions[1]
	o := pairOrder{threads: shape.Threads, n: n}
	o.radix, o.leaf, o.padded = shape.divide(n)
	inRow := func(x, index *Node) *Node { return take(Reshape(x, batch*n), Add(index, begins(p, n))) }
	pack := func(high, low *Node) *Node {
		return BitwiseOr(BitwiseShiftLeftScalar(ConvertDType(high, dtypes.Int64), int32(32)), ConvertDType(low, dtypes.Int64))
	}
	unpack := func(packed *Node) (high, low *Node) {
		return ConvertDType(BitwiseShiftRightLogicalScalar(packed, int32(32)), dtypes.Int32), ConvertDType(packed, dtypes.Int32)
	}

	codeP, decodeP := scoreCode(p)
	codeQ, decodeQ := scoreCode(q)
	top, each := Scalar(g, dtypes.Int32, 1<<30), Iota(g, shapes.Make(dtypes.Int32, batch, n), 1)
	o.code = pack(Sub(top, codeP), codeQ)
	if o.threads {
		less := NewClosure(g, func(g *Graph) []*Node {
			scalar := func(name string, dtype dtypes.DType) *Node { return Parameter(g, name, shapes.Make(dtype)) }
			left, right := scalar("left", dtypes.Int64), scalar("right", dtypes.Int64)
			scalar("left number", dtypes.Int32)
			scalar("right number", dtypes.Int32)
			return []*Node{LessThan(left, right)}
		})
		sorted := SortFunc(less, 1, false, o.code, each)
		o.keys, o.index = sorted[0], sorted[1]
	} else {
		o.keys = Sort(o.code, 1, true)
	}
	high, low := unpack(o.keys)
	byP := o.hold(decodeP(Sub(top, high)))
	codes, place := unpack(Sort(pack(low, each), 1, true))
	o.q, o.p = decodeQ(codes), inRow(byP, place)

	notBelow := countWhile(byP, byP, GreaterOrEqual)
	last := AddScalar(countWhile(byP, AddScalar(byP, -margin), GreaterThan), -1)
	first := countWhile(byP, AddScalar(byP, margin), GreaterOrEqual)

	// Padding has the highest q and the lowest p.
	pad := func(x *Node, value *Node) *Node {
		if o.padded == n {
			return x
		}
		return Concatenate([]*Node{x, value}, 1)
	}
	extra := shapes.Make(dtypes.Int32, batch, max(1, o.padded-n))
	beyond := AddScalar(Iota(g, extra, 1), float64(n))
	fill := func(dtype dtypes.DType, value float64) *Node {
		return BroadcastToDims(Scalar(g, dtype, value), extra.Dimensions...)
	}
	o.valid = LessThan(Iota(g, shapes.Make(dtypes.Int32, batch, o.padded), 1), Scalar(g, dtypes.Int32, n))
	o.mean = ReduceAndKeep(ConvertDType(byP, dtypes.Float64), ReduceMean, -1)
	o.p, o.q = pad(o.p, fill(byP.DType(), -1)), pad(o.q, fill(byP.DType(), 2))
	o.byP = o.hold(pad(byP, fill(byP.DType(), -1)))
	o.notBelow = pad(ConvertDType(inRow(o.hold(notBelow), place), dtypes.Float64), fill(dtypes.Float64, float64(o.padded)))
	number := func(places *Node) *Node {
		return o.hold(Reshape(Add(pad(places, beyond), begins(p, o.padded)), batch*o.padded))
	}
	o.place, o.last, o.first = number(place), number(last), number(first)
	return o
}

// restore puts entries, [B, padded] by ascending q, into the order of the inputs, [B, N].
func (o pairOrder) restore(entries *Node) *Node {
	batch := entries.Shape().Dimensions[0]
	byP := arrange(o.place, Reshape(entries, batch*o.padded))
	if o.index != nil {
		byP = SliceAxis(Reshape(byP, batch, o.padded), 1, AxisRange(0, o.n))
		return Reshape(arrange(Reshape(Add(o.index, begins(entries, o.n)), -1), Reshape(byP, -1)), batch, o.n)
	}
	// Pairs of the same p and q have the same entry, so any of them will do.
	return take(byP, Add(countWhile(o.keys, o.code, LessThan), begins(entries, o.padded)))
}

// begins are the places of the first entries of rows of this size, [B, 1] of int32, for x, [B, any].
func begins(x *Node, size int) *Node {
	return Mul(Iota(x.Graph(), shapes.Make(dtypes.Int32, x.Shape().Dimensions[0], 1), 0), Scalar(x.Graph(), dtypes.Int32, size))
}

// arrange moves each entry of x to its place.
func arrange(place, x *Node) *Node { return scatterTo(place, x, true) }

// scoreCode encodes scores in [0, 1] as integers from 0 to 2³⁰ in the same order. decode turns codes back: to float64 from float64, to float32 from
// shorter ones.
func scoreCode(x *Node) (code *Node, decode func(code *Node) *Node) {
	if x.DType() != dtypes.Float64 {
		// The bits of floats ≥ 0 are ordered as the floats are, and the bits of 1 are below 2³⁰.
		code = Bitcast(ConvertDType(x, dtypes.Float32), dtypes.Int32)
		return code, func(code *Node) *Node {
			return Bitcast(code, dtypes.Float32)
		}
	}
	batch, n := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	sorted := Sort(x, 1, true)
	code = countWhile(sorted, x, LessThan)
	return code, func(code *Node) *Node { return take(Reshape(sorted, batch*n), Add(code, begins(x, n))) }
}

// countWhile counts, for each bound of [B, M], the leading entries s of a row of sorted, [B, N], with holds(s, bound), by binary search. holds must
// be true up to some index of the row and false from there on.
func countWhile(sorted, bounds *Node, holds func(s, bound *Node) *Node) *Node {
	g, batch, n := sorted.Graph(), sorted.Shape().Dimensions[0], sorted.Shape().Dimensions[1]
	counts := shapes.Make(dtypes.Int32, bounds.Shape().Dimensions...)
	steps := bits.Len(uint(n))
	count, flat, rows := Zeros(g, counts), Reshape(sorted, batch*n), MulScalar(Iota(g, counts, 0), float64(n))
	for step := range steps {
		next := AddScalar(count, float64(int(1)<<(steps-1-step)))
		entry := take(flat, Add(MinScalar(AddScalar(next, -1), float64(n-1)), rows))
		count = Where(And(LessOrEqual(next, Scalar(g, dtypes.Int32, n)), holds(entry, bounds)), next, count)
	}
	return count
}

// Ranked is a score in an order of scores, with its original index.
type Ranked struct {
	Score float64
	Index int32
}

// Descending returns scores in [0, 1] from highest to lowest, ties in the order of their indices.
func Descending(scores []float64) []Ranked {
	order := lo.Map(scores, func(score float64, i int) Ranked { return Ranked{score, int32(i)} })
	slices.SortFunc(order, func(a, b Ranked) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Index, b.Index)) })
	return order
}

// TieGroups calls visit for each run of equal scores, from begin to before end, in turn.
func TieGroups(order []Ranked, visit func(begin, end int)) {
	for begin := 0; begin < len(order); {
		end := begin + 1
		for end < len(order) && order[end].Score == order[begin].Score {
			end++
		}
		visit(begin, end)
		begin = end
	}
}

// leafTies are the sums over pairs of equal q in different leaves, which the tree counts as lower and higher. Only runs of equal q that cross a
// leaf's boundary matter, so each leaf has one run before and one after. Arrays are [B·leaves, 1] unless stated otherwise.
type leafTies struct {
	threads
	centred      *Node // p minus its mean, [B, padded] of float64.
	before, sum  *Node // The number of pairs before the leaf with the q of its first pair, and the sum of their centred p, both float64.
	begins, ends *Node // Marks of the pairs with the q of the leaf's first and last pair, [B·leaves, leaf].
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
	t.behind = countWhile(firstQ, lastQ, LessOrEqual)
	// From the first leaf that ends with that q up to the leaf.
	from, to := countWhile(lastQ, firstQ, LessThan), Iota(o.q.Graph(), t.behind.Shape(), 1)
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

// pull returns the sum over the pairs after, like allPairs.Pull, for weights [B·padded]. Those pairs have p_k ≤ p_i.
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
