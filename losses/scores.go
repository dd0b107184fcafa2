package losses

import (
	"errors"
	"fmt"
	"math"
)

// checkScores returns an error that names the first score of a patch pair that is NaN or outside [0, 1]: online scores p and target
// scores q, one of each a pair.
func checkScores(p, q []float64) error {
	if len(p) != len(q) {
		return fmt.Errorf("%d online scores for %d target scores", len(p), len(q))
	}
	if len(p) == 0 {
		return errors.New("no patch pairs")
	}
	for i := range p {
		if !(p[i] >= 0 && p[i] <= 1) {
			return fmt.Errorf("the online score of pair %d is %v, not in [0, 1]", i, p[i])
		}
		if !(q[i] >= 0 && q[i] <= 1) {
			return fmt.Errorf("the target score of pair %d is %v, not in [0, 1]", i, q[i])
		}
	}
	return nil
}

// descending returns the indices of scores in [0, 1] from the highest to the lowest, ties in the order of their indices.
func descending(scores []float64) []int32 {
	// A radix sort: the bits of floats that are not negative have their order. Adding 0 makes negative zeros zeros.
	type entry struct {
		key   uint64
		index int32
	}
	const digit = 11
	entries, sorted := make([]entry, len(scores)), make([]entry, len(scores))
	for i, score := range scores {
		entries[i] = entry{^math.Float64bits(score + 0), int32(i)}
	}
	for shift := 0; shift < 64; shift += digit {
		var begin [1 << digit]int32
		for _, e := range entries {
			begin[e.key>>shift&(1<<digit-1)]++
		}
		total := int32(0)
		for i, count := range begin {
			begin[i] = total
			total += count
		}
		for _, e := range entries {
			at := &begin[e.key>>shift&(1<<digit-1)]
			sorted[*at] = e
			*at++
		}
		entries, sorted = sorted, entries
	}
	order := make([]int32, len(scores))
	for i, e := range entries {
		order[i] = e.index
	}
	return order
}

// tieGroups calls visit for each run of equal scores in an order by score, in turn.
func tieGroups(order []int32, scores []float64, visit func(group []int32)) {
	for len(order) > 0 {
		end := 1
		for end < len(order) && scores[order[end]] == scores[order[0]] {
			end++
		}
		visit(order[:end])
		order = order[end:]
	}
}
