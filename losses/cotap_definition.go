package losses

import "slices"

// CoTAPDefinition is the continuous-target AP loss as it is defined (eq. def_ctap): the mean over pairs k of weight(q_k) times the AP loss
// at threshold q_k. With as many thresholds as pairs it takes a time of order n² for n pairs; it is there to be compared with.
//
// p and q hold one score in [0, 1] a patch pair; weight, the paper's γ, is any function of a target score. A score outside [0, 1] and
// slices of different lengths are errors.
func CoTAPDefinition(p, q []float64, weight func(float64) float64) (float64, error) {
	if err := checkScores(p, q); err != nil {
		return 0, err
	}
	order, total := descending(p), 0.0
	tieGroups(descending(q), q, func(group []int32) {
		threshold := q[group[0]]
		loss, _ := apOf(order, p, q, threshold)
		total += float64(len(group)) * weight(threshold) * loss
	})
	return total / float64(len(p)), nil
}

// CoTAPBound is the upper bound of [CoTAPDefinition] that Proposition 1 gives for weight ≥ 0: the mean over pairs i of
// γ̃_i g(ψ_i Σ_{q_j < q_i} 1[p_i ≤ p_j]), where 1/ψ_i counts the pairs with q_j ≥ q_i and p_j ≥ p_i, and γ̃_i sums weight(q_k)/r_k over
// q_k ≤ q_i with the ranks r_k. It takes a time of order n log n. Arguments and errors are those of [CoTAPDefinition].
func CoTAPBound(p, q []float64, weight func(float64) float64) (float64, error) {
	if err := checkScores(p, q); err != nil {
		return 0, err
	}
	notBelow := make([]int32, len(p)) // #{p_j ≥ p_i}
	place := make([]int32, len(p))    // Of i among descending p.
	for at, i := range descending(p) {
		place[i] = int32(at)
	}
	seen := int32(0)
	tieGroups(descending(p), p, func(group []int32) {
		seen += int32(len(group))
		for _, i := range group {
			notBelow[i] = seen
		}
	})

	lower := make(fenwick, len(p)+1)
	gamma, rank, total := 0.0, len(q), 0.0
	ascending := descending(q)
	slices.Reverse(ascending)
	tieGroups(ascending, q, func(group []int32) {
		gamma += float64(len(group)) * weight(q[group[0]]) / float64(rank)
		rank -= len(group)
		for _, i := range group {
			// g(ψx) = x/(x + 1/ψ), and x + 1/ψ counts all pairs with p_j ≥ p_i.
			total += gamma * lower.below(notBelow[i]).count / float64(notBelow[i])
		}
		for _, i := range group {
			lower.add(place[i], moments{count: 1})
		}
	})
	return total / float64(len(p)), nil
}
