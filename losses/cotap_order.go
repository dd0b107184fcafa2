package losses

import (
	"math/bits"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// treeShape is what a tree may be made of.
type treeShape struct {
	leaf  int // The largest number of pairs of a leaf, but for rounding: comparing that many costs about as much as a level.
	radix int // The largest number of parts of a node.
}

var fastShape = treeShape{leaf: 160, radix: 16}

// pairOrder holds the pairs of B image pairs by ascending q, those of equal q by descending p, padded from N to a leaf size times a power
// of the radix. Arrays are [B, padded].
type pairOrder struct {
	n, padded, leaf, radix int
	dtype                  dtypes.DType // Of the scores given; float32 for shorter ones.

	p, q    *Node // Scores in float64.
	centred *Node // p less the mean of all, so that sums of squares of close scores keep their digits. Rounded: p alone is for comparing.
	valid   *Node // False for padding.
	// notBelow is #{p_j ≥ p_i}, in float64.
	notBelow *Node
	// places are own, last and first of the tree's root. [B·padded]
	places [3]*Node

	keys, code *Node // Of the order by p: sorted, and of the inputs. [B, N]
}

// divide gives the number of parts of a node, the size of a leaf, and the number of pairs of a tree of n pairs and padding.
func (s treeShape) divide(n int) (radix, leaf, padded int) {
	leaves, levels := (n-1)/s.leaf+1, 0
	for whole := 1; whole < leaves; whole *= s.radix {
		levels++
	}
	power := func(base int) int {
		product := 1
		for range levels {
			product *= base
		}
		return product
	}
	for radix = 1; power(radix) < leaves; {
		radix++
	}
	// Vectors have up to 32 entries, and multiples of 8 have the divisors that cumulate wants.
	multiple := min(32, s.leaf)
	leaf = ((n-1)/power(radix)/multiple + 1) * multiple
	return radix, leaf, leaf * power(radix)
}

// newPairOrder sorts pairs with scores in [0, 1], [B, N].
//
// Sorts of single integers are the fast ones on XLA, so each score becomes a 31-bit code of the same order, and a sort of (p, q) gives
// places, which tell pairs apart in a second sort, of (q, place).
func newPairOrder(p, q *Node, margin float64, shape treeShape) pairOrder {
	g := p.Graph()
	batch, n := p.Shape().Dimensions[0], p.Shape().Dimensions[1]
	o := pairOrder{n: n, dtype: dtypes.Float32}
	o.radix, o.leaf, o.padded = shape.divide(n)
	if p.DType() == dtypes.Float64 {
		o.dtype = dtypes.Float64
	}
	int64s := func(x *Node) *Node { return ConvertDType(x, dtypes.Int64) }

	codeP, decodeP := scoreCode(p)
	codeQ, decodeQ := scoreCode(q)
	o.code = BitwiseOr(BitwiseShiftLeftScalar(Sub(Scalar(g, dtypes.Int64, 1<<30), int64s(codeP)), int32(32)), int64s(codeQ))
	o.keys = Sort(o.code, 1, true)
	byP := decodeP(Sub(Scalar(g, dtypes.Int64, 1<<30), BitwiseShiftRightLogicalScalar(o.keys, int32(32))))
	low := BitwiseAnd(o.keys, Scalar(g, dtypes.Int64, 1<<32-1))
	byQ := Sort(BitwiseOr(BitwiseShiftLeftScalar(low, int32(32)), Iota(g, shapes.Make(dtypes.Int64, batch, n), 1)), 1, true)
	place := ConvertDType(BitwiseAnd(byQ, Scalar(g, dtypes.Int64, 1<<32-1)), dtypes.Int32)
	o.q = decodeQ(BitwiseShiftRightLogicalScalar(byQ, int32(32)))

	begin := Mul(Iota(g, shapes.Make(dtypes.Int32, batch, 1), 0), Scalar(g, dtypes.Int32, n))
	o.p = take(Reshape(byP, batch*n), Add(place, begin))

	notBelow := countWhile(byP, o.p, GreaterOrEqual)
	last := AddScalar(countWhile(byP, AddScalar(o.p, -margin), GreaterThan), -1)
	first := countWhile(byP, AddScalar(o.p, margin), GreaterOrEqual)
	// Rounding must not carry a bound over the pair itself.
	last, first = Max(last, place), Min(first, place)

	// Padding has the highest q and the lowest p.
	pad := func(x *Node, value *Node) *Node {
		if o.padded == n {
			return x
		}
		return Concatenate([]*Node{x, value}, 1)
	}
	extra := shapes.Make(dtypes.Int32, batch, max(1, o.padded-n))
	beyond := AddScalar(Iota(g, extra, 1), float64(n))
	fill := func(value float64) *Node {
		return BroadcastToDims(Scalar(g, dtypes.Float64, value), extra.Dimensions...)
	}
	o.valid = LessThan(Iota(g, shapes.Make(dtypes.Int32, batch, o.padded), 1), Scalar(g, dtypes.Int32, n))
	mean := ReduceAndKeep(byP, ReduceMean, -1)
	o.p, o.q = pad(o.p, fill(-1)), pad(o.q, fill(2))
	o.centred = hold(Sub(o.p, mean))
	o.notBelow = pad(ConvertDType(notBelow, dtypes.Float64), fill(float64(o.padded)))
	begin = Mul(Iota(g, shapes.Make(dtypes.Int32, batch, 1), 0), Scalar(g, dtypes.Int32, o.padded))
	for i, x := range []*Node{place, last, first} {
		o.places[i] = hold(Reshape(Add(pad(x, beyond), begin), batch*o.padded))
	}
	return o
}

// restore brings entries, [B, padded] by ascending q, into the order of the inputs, [B, N].
func (o pairOrder) restore(entries *Node) *Node {
	g := entries.Graph()
	batch := entries.Shape().Dimensions[0]
	byP := Scatter(InsertAxes(o.places[0], -1), Reshape(entries, batch*o.padded), shapes.Make(entries.DType(), batch*o.padded), false, true)
	// Pairs of the same p and q have the same entry, so any of them will do.
	begin := Mul(Iota(g, shapes.Make(dtypes.Int32, batch, 1), 0), Scalar(g, dtypes.Int32, o.padded))
	return take(byP, Add(countWhile(o.keys, o.code, LessThan), begin))
}

// scoreCode gives codes of scores in [0, 1]: integers from 0 to 2³⁰ in the same order, and the way back, to float64.
func scoreCode(x *Node) (code *Node, decode func(code *Node) *Node) {
	if x.DType() != dtypes.Float64 {
		// The bits of floats that are not negative have their order, and those of 1 are below 2³⁰.
		code = Bitcast(ConvertDType(x, dtypes.Float32), dtypes.Int32)
		return code, func(code *Node) *Node {
			return ConvertDType(Bitcast(ConvertDType(code, dtypes.Int32), dtypes.Float32), dtypes.Float64)
		}
	}
	batch, n := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	sorted := Sort(x, 1, true)
	code = countWhile(sorted, x, LessThan)
	return code, func(code *Node) *Node {
		begin := Mul(Iota(x.Graph(), shapes.Make(dtypes.Int32, batch, 1), 0), Scalar(x.Graph(), dtypes.Int32, n))
		return take(Reshape(sorted, batch*n), Add(ConvertDType(code, dtypes.Int32), begin))
	}
}

// countWhile counts, for each bound of [B, M], the entries s at the beginning of a row of sorted, [B, N], with holds(s, bound), by binary
// search. holds must be true up to a place in the row and false from it on.
func countWhile(sorted, bounds *Node, holds func(s, bound *Node) *Node) *Node {
	g := sorted.Graph()
	batch, n := sorted.Shape().Dimensions[0], sorted.Shape().Dimensions[1]
	flat := Reshape(sorted, batch*n)
	begin := Mul(Iota(g, shapes.Make(dtypes.Int32, batch, 1), 0), Scalar(g, dtypes.Int32, n))
	count := Zeros(g, shapes.Make(dtypes.Int32, bounds.Shape().Dimensions...))
	for step := 1 << (bits.Len(uint(n)) - 1); step > 0; step /= 2 {
		next := AddScalar(count, float64(step))
		entry := take(flat, Add(MinScalar(AddScalar(next, -1), float64(n-1)), begin))
		further := And(LessOrEqual(next, Scalar(g, dtypes.Int32, n)), holds(entry, bounds))
		count = Where(further, next, count)
	}
	return count
}
