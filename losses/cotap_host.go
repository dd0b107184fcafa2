package losses

import (
	"slices"
)

// Evaluate computes the loss of n patch pairs and its gradient in p without a device, exactly over all pairs, in a time of order n log n and
// float64. p and q hold one score in [0, 1] a pair. A score that is NaN or outside, slices of different lengths, no pairs and
// hyper-parameters out of range are errors.
//
// ℓ(x) = ([τ−x]₊² − [−x]₊²)/τ² is quadratic between its knots, so a pair's sums over the pairs of lower q are sums of 1, p and p² over
// those with p_j ≥ p_i and those with p_j > p_i − τ. A sweep through ascending q finds them in a Fenwick tree over p. The gradient that
// reaches a pair as another's negative is a sum over the pairs of higher q, found in the sweep back.
func (c CoTAP) Evaluate(p, q []float64) (loss float64, gradient []float64, err error) {
	if err := c.Check(); err != nil {
		return 0, nil, err
	}
	if err := checkScores(p, q); err != nil {
		return 0, nil, err
	}
	n, tau := len(p), c.Tau2
	pairs := sweepPairs(p, q, tau)
	weights := make([]float64, n) // By ascending q, as pairs: γ̃_i ψ_i g'(ψ_i Σ ℓ).
	slopes := make([]float64, n)  // −τ²/2 Σ ℓ'(p_i − p_j) over the pairs of lower q.

	tree := make(fenwick, n+1)
	for begin := 0; begin < n; {
		end := begin
		for ; end < n && pairs[end].q == pairs[begin].q; end++ {
			i := &pairs[end]
			above := tree.below(i.notBelow)
			window := tree.below(i.within).minus(above) // p_i − τ < p_j < p_i
			reach := tau - i.p
			huber := tau*tau*above.count + 2*tau*(above.sum-i.p*above.count) + window.squares + 2*reach*window.sum + reach*reach*window.count
			huber = max(0, huber) / (tau * tau)
			same := float64(i.notBelow) - above.count // 1/ψ
			gamma := max(0, i.q-c.Tau1)
			loss += gamma * huber / (huber + same)
			weights[end] = gamma * same / ((huber + same) * (huber + same))
			slopes[end] = tau*above.count + window.sum + reach*window.count
		}
		for ; begin < end; begin++ {
			x := pairs[begin].p
			tree.add(pairs[begin].place, moments{1, x, x * x})
		}
	}

	gradient = make([]float64, n)
	clear(tree)
	var all moments
	for end := n; end > 0; {
		begin := end
		for ; begin > 0 && pairs[begin-1].q == pairs[end-1].q; begin-- {
			at := begin - 1
			k := pairs[at]
			notBelow, outside := tree.below(k.notBelow), tree.below(k.beyond)
			window := notBelow.minus(outside) // p_i ≤ p_k < p_i + τ, each with its weight
			pull := tau*(all.count-notBelow.count) + (tau+k.p)*window.count - window.sum
			gradient[k.index] = 2 / (tau * tau) * (pull - weights[at]*slopes[at]) / float64(n)
		}
		for ; end > begin; end-- {
			i, w := pairs[end-1], weights[end-1]
			m := moments{count: w, sum: w * i.p}
			tree.add(i.place, m)
			all = all.plus(m)
		}
	}
	return loss / float64(n), gradient, nil
}

// sweepPair is a pair as the sweeps meet it. Its places are among all pairs by descending p.
type sweepPair struct {
	p, q     float64 // p from the mean of all, so that sums of squares of close scores keep their digits.
	index    int32
	place    int32
	notBelow int32 // #{p_j ≥ p_i}
	within   int32 // #{p_j > p_i − τ}
	beyond   int32 // #{p_j ≥ p_i + τ}
}

// sweepPairs returns the pairs by ascending q.
func sweepPairs(p, q []float64, tau float64) []sweepPair {
	byScore := descending(p)
	mean := 0.0
	for _, x := range p {
		mean += x / float64(len(p))
	}
	places := make([]sweepPair, len(p))
	within, beyond, notBelow := 0, 0, 0
	for at, i := range byScore {
		for notBelow < len(p) && p[byScore[notBelow]] >= p[i] {
			notBelow++
		}
		for within < len(p) && p[byScore[within]] > p[i]-tau {
			within++
		}
		for beyond < len(p) && p[byScore[beyond]] >= p[i]+tau {
			beyond++
		}
		places[i] = sweepPair{p[i] - mean, q[i], i, int32(at), int32(notBelow), int32(within), int32(beyond)}
	}
	pairs := make([]sweepPair, len(p))
	order := descending(q)
	slices.Reverse(order)
	for at, i := range order {
		pairs[at] = places[i]
	}
	return pairs
}
