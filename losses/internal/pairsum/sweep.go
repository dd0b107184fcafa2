package pairsum

import "github.com/samber/lo"

// Pair is a pair as [Lower] takes it.
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
	return lo.Map(byP, func(pair Ranked, _ int) Pair {
		return Pair{P: pair.Score, Weight: 1, Rank: ranks - 1 - higher[pair.Index]}
	}), ranks
}

// Lower returns the sums of each of pairs, which are by descending p and have ranks below a number. The margin tau is at least 1e-4.
//
// The terms are [τ+p_j−p_i]₊² − [p_j−p_i]₊² and the like: pair j is a point at p_j + τ and one of opposite sign at p_j, and the points above p_i
// count. A sweep visits the pairs by descending p, and a Fenwick tree over ranks holds the moments of the points above.
func Lower(pairs []Pair, ranks int32, tau float64) []LowerSums {
	mean := 0.0 // Minus the mean, sums of squares of close scores keep their digits.
	for i := range pairs {
		mean += pairs[i].P / float64(len(pairs))
	}
	tree, sums, wide := make(sweepTree, ranks+1), make([]LowerSums, len(pairs)), 0
	for begin := 0; begin < len(pairs); {
		p, end := pairs[begin].P, begin
		x := p - mean
		for ; end < len(pairs) && pairs[end].P == p; end++ {
			w := pairs[end].Weight
			tree.add(pairs[end].Rank, moments{above: w, count: -w, sum: -w * x, squares: -w * x * x})
		}
		for ; wide < len(pairs) && pairs[wide].P > p-tau; wide++ {
			y, w := pairs[wide].P-mean+tau, pairs[wide].Weight
			tree.add(pairs[wide].Rank, moments{count: w, sum: w * y, squares: w * y * y})
		}
		for ; begin < end; begin++ {
			m := tree.below(pairs[begin].Rank)
			sums[begin] = LowerSums{m.above, m.sum - x*m.count, m.squares - x*(2*m.sum-x*m.count)}
		}
	}
	return sums
}

// sweepTree is a Fenwick tree over ranks. Adding at a rank and summing below one are O(log len) each.
type sweepTree []moments

// moments are sums of 1, y and y² over points, with weight and sign, and the sum of the weights of pairs above.
type moments struct{ above, count, sum, squares float64 }

func (m moments) plus(o moments) moments {
	return moments{m.above + o.above, m.count + o.count, m.sum + o.sum, m.squares + o.squares}
}

func (t sweepTree) add(rank int32, m moments) {
	for at := int(rank) + 1; at < len(t); at += at & -at {
		t[at] = t[at].plus(m)
	}
}

// below sums over the ranks below one.
func (t sweepTree) below(rank int32) (sum moments) {
	for at := rank; at > 0; at &= at - 1 {
		sum = sum.plus(t[at])
	}
	return sum
}
