package losses

import (
	"slices"

	"github.com/semcon/semcon/losses/internal/pairsum"
)

// CoTAPDefinition is the continuous-target AP loss by its definition (eq. def_ctap): the mean over pairs k of weight(q_k) times the AP loss at
// threshold q_k. It takes O(n²) time for n pairs and serves for comparison.
//
// p and q hold one score in [0, 1] per patch pair; weight, the paper's γ, is any function of a target score. It is an error if a score is out of
// range or if lengths differ.
func CoTAPDefinition(p, q []float64, weight func(float64) float64) (float64, error) {
	if err := checkScores(p, q); err != nil {
		return 0, err
	}
	byP, byQ, total := pairsum.Descending(p), pairsum.Descending(q), 0.0
	pairsum.TieGroups(byQ, func(begin, end int) {
		threshold := byQ[begin].Score
		loss, _ := apOf(byP, q, threshold)
		total += float64(end-begin) * weight(threshold) * loss
	})
	return total / float64(len(p)), nil
}

// CoTAPBound is the upper bound of [CoTAPDefinition] that Proposition 1 gives for weight ≥ 0: the mean over pairs i of γ̃_i g(ψ_i Σ_{q_j < q_i} 1[p_i
// ≤ p_j]), where 1/ψ_i counts the pairs with q_j ≥ q_i and p_j ≥ p_i, and γ̃_i sums weight(q_k)/r_k over q_k ≤ q_i with the ranks r_k. It takes O(n
// log n) time. Arguments and errors are those of [CoTAPDefinition].
func CoTAPBound(p, q []float64, weight func(float64) float64) (float64, error) {
	if err := checkScores(p, q); err != nil {
		return 0, err
	}
	byP, byQ := pairsum.Descending(p), pairsum.Descending(q)
	pairs, ranks := pairsum.Pairs(byP, byQ)
	gammas, gamma := make([]float64, len(q)), 0.0
	slices.Reverse(byQ)
	pairsum.TieGroups(byQ, func(begin, end int) {
		gamma += float64(end-begin) * weight(byQ[begin].Score) / float64(len(q)-begin)
		for _, pair := range byQ[begin:end] {
			gammas[pair.Index] = gamma
		}
	})

	lower, total := pairsum.NewSweep(1, ranks, pairsum.MostDigitBits).Lower(pairs), 0.0
	pairsum.TieGroups(byP, func(begin, end int) {
		for at := begin; at < end; at++ {
			// g(ψx) = x/(x + 1/ψ), and x + 1/ψ counts all pairs with p_j ≥ p_i.
			total += gammas[byP[at].Index] * lower[at].Above / float64(end)
		}
	})
	return total / float64(len(p)), nil
}
