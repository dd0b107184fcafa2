package losses

import "slices"

// Evaluate computes the loss of n patch pairs and its gradient in p without a device, exactly over all pairs, in a time of order n log n and
// float64. p and q hold one score in [0, 1] a pair. A score that is NaN or outside, slices of different lengths, no pairs and
// hyper-parameters out of range are errors.
//
// What pulls at a pair as another's negative comes from the pairs of higher q whose p is lower, or higher by less than Tau2: with both orders
// turned round it is the sum over pairs of lower q that the loss is made of.
func (c CoTAP) Evaluate(p, q []float64) (loss float64, gradient []float64, err error) {
	return c.evaluate(p, q, mostDigitBits)
}

func (c CoTAP) evaluate(p, q []float64, digitBits int) (loss float64, gradient []float64, err error) {
	if err := c.Check(); err != nil {
		return 0, nil, err
	}
	if err := checkScores(p, q); err != nil {
		return 0, nil, err
	}
	n, square := len(p), c.Tau2*c.Tau2
	byP := descending(p)
	pairs, ranks := sweepPairs(byP, descending(q))
	sweep := newSweep(c.Tau2, ranks, digitBits)
	sums := sweep.lower(pairs)
	targets := make([]float64, n) // By descending p too. Gathered in a loop of its own: in the one below each read would be waited for.
	for at, pair := range byP {
		targets[at] = q[pair.index]
	}
	tieGroups(byP, func(begin, end int) {
		for at := begin; at < end; at++ {
			gamma, same := max(0, targets[at]-c.Tau1), float64(end)-sums[at].above // γ̃ and 1/ψ
			huber := max(0, sums[at].huber) / square
			loss += gamma * huber / (huber + same)
			weight := gamma * same / ((huber + same) * (huber + same)) // γ̃ ψ g'(ψ Σ ℓ)
			sums[at].slope *= weight
			pairs[at] = sweepPair{p: -pairs[at].p, weight: weight, rank: ranks - 1 - pairs[at].rank}
		}
	})

	slices.Reverse(pairs)
	pulls := sweep.lower(pairs)
	gradient = make([]float64, n)
	for at, pair := range byP {
		gradient[pair.index] = 2 / (square * float64(n)) * (pulls[n-1-at].slope - sums[at].slope)
	}
	return loss / float64(n), gradient, nil
}
