package pairsum

import (
	"math"
	"math/bits"
)

// Ranked is a score in an order of scores, with its original index.
type Ranked struct {
	Score float64
	Index int32
}

// Descending returns scores in [0, 1] from highest to lowest, ties in the order of their indices.
func Descending(scores []float64) []Ranked {
	// A radix sort: the bits of nonnegative floats sort as the floats do. Only digits in which some scores differ take a pass; scores that were
	// float32 end in zeros.
	order, sorted := make([]Ranked, len(scores)), make([]Ranked, len(scores))
	differ := uint64(0)
	for i, score := range scores {
		order[i] = Ranked{score + 0, int32(i)} // Adding 0 makes negative zeros zeros.
		differ |= math.Float64bits(order[i].Score) ^ math.Float64bits(order[0].Score)
	}
	const digit = 11
	for shift := bits.TrailingZeros64(differ); shift < bits.Len64(differ); shift += digit {
		key := func(r Ranked) uint64 { return ^math.Float64bits(r.Score) >> shift % (1 << digit) }
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

// TieGroups calls visit for each run of equal scores, from begin to before end, in turn.
func TieGroups(order []Ranked, visit func(begin, end int)) {
	for begin := 0; begin < len(order); {
		end := begin + 1
		for end < len(order) && order[end].Score == order[begin].Score {
			end++
		}
		visit(begin, end)
		begin = end
	}
}
