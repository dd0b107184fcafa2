package losses

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
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

// ranked is a score in an order of scores, and its index before.
type ranked struct {
	score float64
	index int32
}

// descending returns scores in [0, 1] from the highest to the lowest, ties in the order of their indices.
func descending(scores []float64) []ranked {
	// A radix sort: the bits of floats that are not negative have their order. Only those count in which some differ: scores that were float32
	// end in zeros.
	order, sorted := make([]ranked, len(scores)), make([]ranked, len(scores))
	differ := uint64(0)
	for i, score := range scores {
		order[i] = ranked{score + 0, int32(i)} // Adding 0 makes negative zeros zeros.
		differ |= math.Float64bits(order[i].score) ^ math.Float64bits(order[0].score)
	}
	const digit = 11
	for shift := bits.TrailingZeros64(differ); shift < bits.Len64(differ); shift += digit {
		key := func(r ranked) uint64 { return ^math.Float64bits(r.score) >> shift % (1 << digit) }
		var begin [1 << digit]int32
		for _, r := range order {
			begin[key(r)]++
		}
		total := int32(0)
		for i, count := range begin {
			begin[i] = total
			total += count
		}
		for _, r := range order {
			at := &begin[key(r)]
			sorted[*at] = r
			*at++
		}
		order, sorted = sorted, order
	}
	return order
}

// tieGroups calls visit for each run of equal scores in an order by score, from begin to before end, in turn.
func tieGroups(order []ranked, visit func(begin, end int)) {
	for begin := 0; begin < len(order); {
		end := begin + 1
		for end < len(order) && order[end].score == order[begin].score {
			end++
		}
		visit(begin, end)
		begin = end
	}
}
