package pairsum

import "math/bits"

// Sweep finds, for each of many pairs, sums over the pairs of lower rank.
//
// These are of [τ+p_j−p_i]₊² − [p_j−p_i]₊² and alike: pair j is a point at p_j + τ and one of opposite sign at p_j, and what counts are the points
// above p_i. Going through the pairs by descending p, a Fenwick tree over ranks holds the moments of those.
//
// A tree over very many ranks does not fit into a cache. So ranks are written in digits: a tree over the first digit gives the sums over the
// pairs with a lower one, then the pairs with an equal one are gone through by themselves, with the next digit.
type Sweep struct {
	tau    float64 // The margin: at least 1e-4.
	digits int
	bits   int // Of each digit.
	tree   sweepTree
}

// Pair is a pair as a sweep meets it.
type Pair struct {
	P, Weight float64
	Rank      int32 // The number of distinct values of q below the pair's.
}

// LowerSums are sums over the pairs j of lower rank than pair i, each with its weight.
type LowerSums struct {
	Above float64 // Σ 1 over p_j ≥ p_i
	Slope float64 // Σ [τ+p_j−p_i]₊ − [p_j−p_i]₊
	Huber float64 // Σ [τ+p_j−p_i]₊² − [p_j−p_i]₊²: τ² times the loss's.
}

// Pairs are pairs by descending p, each with a weight of 1, and the number of ranks, of scores p and q as descending gives them.
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

// MostDigitBits is the largest number of bits of a digit: a tree of more leaves the caches, and each further digit costs as much as the first.
const MostDigitBits = 16

// NewSweep prepares a sweep with the margin tau over that many ranks, by digits of at most that many bits.
func NewSweep(tau float64, ranks int32, mostBits int) Sweep {
	width := max(1, bits.Len32(uint32(ranks-1)))
	digits := (width-1)/mostBits + 1
	each := (width-1)/digits + 1
	return Sweep{tau, digits, each, make(sweepTree, min(ranks, 1<<each)+1)}
}

// Lower gives the sums of each of pairs, which stand by descending p.
func (s Sweep) Lower(pairs []Pair) []LowerSums {
	mean := 0.0 // Less the mean, sums of squares of close scores keep their digits.
	for i := range pairs {
		mean += pairs[i].P / float64(len(pairs))
	}
	return s.from(s.digits-1, pairs, mean)
}

// from gives the sums over the pairs whose rank is the same before a digit and lower from it on. The digits are counted from the last, and the
// pairs stand by their ranks before the digit, equal ones by descending p.
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

// byDigit finds the sums of pairs over those with a lower digit at shift. The tree is empty before and after.
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

// byRank gives each pair's place by ascending ranks without their last bits, equal ones in the order they stand in.
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

// sweepTree is a Fenwick tree over the values of a digit: adding at one and summing over those below one each take a time of order log len.
type sweepTree []moments

// moments are sums of 1, y and y² over points, each with its weight and sign, and of the weights of pairs above.
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
