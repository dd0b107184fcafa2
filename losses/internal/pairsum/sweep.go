package pairsum

import "math/bits"

// Sweep computes, for each of many pairs, sums over the pairs of lower rank.
//
// The terms are [τ+p_j−p_i]₊² − [p_j−p_i]₊² and the like: pair j is a point at p_j + τ and one of opposite sign at p_j, and the points above p_i
// count. The sweep visits the pairs by descending p, and a Fenwick tree over ranks holds the moments of the points above.
//
// A tree over very many ranks does not fit into a cache. So ranks are written in digits: a tree over the first digit gives the sums over the pairs
// with a lower digit; then the pairs with an equal digit are swept separately, by the next digit.
type Sweep struct {
	tau    float64 // The margin: at least 1e-4.
	digits int
	bits   int // Per digit.
	tree   sweepTree
}

// Pair is a pair as a sweep takes it.
type Pair struct {
	P, Weight float64
	Rank      int32 // The number of distinct values of q below the pair's.
}

// LowerSums are weighted sums over the pairs j of lower rank than pair i.
type LowerSums struct {
	Above float64 // Σ 1 over p_j ≥ p_i
	Slope float64 // Σ [τ+p_j−p_i]₊ − [p_j−p_i]₊
	Huber float64 // Σ [τ+p_j−p_i]₊² − [p_j−p_i]₊²: τ² times the loss's
}

// Pairs returns the pairs by descending p, each with weight 1, and the number of ranks. byP and byQ are as [Descending] returns them.
func Pairs(byP, byQ []Ranked) (pairs []Pair, ranks int32) {
	higher := make([]int32, len(byQ)) // The number of values above.
	TieGroups(byQ, func(begin, end int) {
		for _, pair := range byQ[begin:end] {
			higher[pair.Index] = ranks
		}
		ranks++
	})
	pairs = make([]Pair, len(byP))
	for at, pair := range byP {
		pairs[at] = Pair{P: pair.Score, Weight: 1, Rank: ranks - 1 - higher[pair.Index]}
	}
	return pairs, ranks
}

// MostDigitBits is the largest number of bits in a digit: a larger tree does not fit the caches, and each further digit costs as much as the first.
const MostDigitBits = 16

// NewSweep prepares a sweep with margin tau over this many ranks, by digits of at most mostBits bits.
func NewSweep(tau float64, ranks int32, mostBits int) Sweep {
	width := max(1, bits.Len32(uint32(ranks-1)))
	digits := (width-1)/mostBits + 1
	each := (width-1)/digits + 1
	return Sweep{tau, digits, each, make(sweepTree, min(ranks, 1<<each)+1)}
}

// Lower returns the sums of each of pairs, which are by descending p.
func (s Sweep) Lower(pairs []Pair) []LowerSums {
	mean := 0.0 // Minus the mean, sums of squares of close scores keep their digits.
	for i := range pairs {
		mean += pairs[i].P / float64(len(pairs))
	}
	return s.from(s.digits-1, pairs, mean)
}

// from returns the sums over the pairs whose rank agrees before a digit and is lower from it on. Digits are counted from the last. The pairs stand by
// their ranks before the digit, and by descending p where those are equal.
func (s Sweep) from(which int, pairs []Pair, mean float64) []LowerSums {
	sums, shift := make([]LowerSums, len(pairs)), which*s.bits
	for begin := 0; begin < len(pairs); {
		end, same := begin, pairs[begin].Rank>>(shift+s.bits)
		for end < len(pairs) && pairs[end].Rank>>(shift+s.bits) == same {
			end++
		}
		s.byDigit(shift, pairs[begin:end], mean, sums[begin:end])
		begin = end
	}
	if which == 0 {
		return sums
	}
	places := byRank(pairs, shift)
	sorted := make([]Pair, len(pairs))
	for i, place := range places {
		sorted[place] = pairs[i]
	}
	rest := s.from(which-1, sorted, mean)
	for i, place := range places {
		sums[i].Above += rest[place].Above
		sums[i].Slope += rest[place].Slope
		sums[i].Huber += rest[place].Huber
	}
	return sums
}

// byDigit computes the sums of pairs over those with a lower digit at shift. The tree is empty before and after.
func (s Sweep) byDigit(shift int, pairs []Pair, mean float64, sums []LowerSums) {
	digit := func(at int) int32 { return pairs[at].Rank >> shift & (1<<s.bits - 1) }
	wide := 0
	for begin := 0; begin < len(pairs); {
		p, end := pairs[begin].P, begin
		x := p - mean
		for ; end < len(pairs) && pairs[end].P == p; end++ {
			w := pairs[end].Weight
			s.tree.add(digit(end), moments{above: w, count: -w, sum: -w * x, squares: -w * x * x})
		}
		for ; wide < len(pairs) && pairs[wide].P > p-s.tau; wide++ {
			y, w := pairs[wide].P-mean+s.tau, pairs[wide].Weight
			s.tree.add(digit(wide), moments{count: w, sum: w * y, squares: w * y * y})
		}
		for ; begin < end; begin++ {
			m := s.tree.below(digit(begin))
			sums[begin] = LowerSums{m.above, m.sum - x*m.count, m.squares - x*(2*m.sum-x*m.count)}
		}
	}
	clear(s.tree)
}

// byRank returns each pair's position by ascending ranks without their last bits, stable among equals.
func byRank(pairs []Pair, without int) []int32 {
	var begin []int32
	for i := range pairs {
		key := int(pairs[i].Rank >> without)
		for len(begin) < key+2 {
			begin = append(begin, 0)
		}
		begin[key+1]++
	}
	for i := 1; i < len(begin); i++ {
		begin[i] += begin[i-1]
	}
	places := make([]int32, len(pairs))
	for i := range pairs {
		at := &begin[pairs[i].Rank>>without]
		places[i] = *at
		*at++
	}
	return places
}

// sweepTree is a Fenwick tree over the values of a digit. Adding at a digit and summing below one are O(log len) each.
type sweepTree []moments

// moments are sums of 1, y and y² over points, with weight and sign, and the sum of the weights of pairs above.
type moments struct{ above, count, sum, squares float64 }

func (m moments) plus(o moments) moments {
	return moments{m.above + o.above, m.count + o.count, m.sum + o.sum, m.squares + o.squares}
}

func (t sweepTree) add(digit int32, m moments) {
	for at := int(digit) + 1; at < len(t); at += at & -at {
		t[at] = t[at].plus(m)
	}
}

// below sums over the digits below one.
func (t sweepTree) below(digit int32) (sum moments) {
	for at := digit; at > 0; at &= at - 1 {
		sum = sum.plus(t[at])
	}
	return sum
}
