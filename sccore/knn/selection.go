package knn

import (
	"math"
	"slices"
)

// candidate is a feature of the bank as a number that is the smaller the nearer the feature is to the query: the high bits are the similarity in
// inverse order, the low bits the index, which breaks ties.
type candidate uint64

func newCandidate(similarity float32, index int) candidate {
	bits := math.Float32bits(similarity)
	switch {
	case similarity == 0:
		bits = 1 << 31 // −0 counts as 0.
	case bits>>31 == 1:
		bits = ^bits
	default:
		bits |= 1 << 31
	}
	return candidate(^bits)<<32 | candidate(uint32(index))
}

func (c candidate) index() int32 { return int32(uint32(c)) }

func (c candidate) similarity() float32 {
	bits := ^uint32(c >> 32)
	if bits>>31 == 1 {
		return math.Float32frombits(bits &^ (1 << 31))
	}
	return math.Float32frombits(^bits)
}

// selection holds the k nearest of the candidates that it was offered.
type selection struct {
	k          int
	candidates []candidate // A heap with the farthest first once there are k, until sort.
	threshold  float32     // The similarity of the farthest of k, or −∞ while there are fewer.
}

// reset starts another selection in the same memory.
func (s *selection) reset(k int) {
	s.k, s.candidates, s.threshold = k, s.candidates[:0], float32(math.Inf(-1))
}

// offer takes the similarities of features with consecutive indices, higher than all before.
func (s *selection) offer(similarities []float32, first int) {
	threshold := s.threshold
	for i, similarity := range similarities {
		if similarity > threshold { // An equal one is farther, because its index is higher.
			s.take(newCandidate(similarity, first+i))
			threshold = s.threshold
		}
	}
}

// take adds a candidate, in place of the farthest if there are k.
func (s *selection) take(c candidate) {
	if len(s.candidates) < s.k {
		if s.candidates = append(s.candidates, c); len(s.candidates) < s.k {
			return
		}
		slices.Sort(s.candidates)
		slices.Reverse(s.candidates) // Descending order is a heap.
	} else {
		heap, at := s.candidates, 0
		for {
			child := 2*at + 1
			if child >= len(heap) {
				break
			}
			if right := child + 1; right < len(heap) && heap[right] > heap[child] {
				child = right
			}
			if heap[child] <= c {
				break
			}
			heap[at], at = heap[child], child
		}
		heap[at] = c
	}
	s.threshold = s.candidates[0].similarity()
}

// sort orders the candidates, nearest first.
func (s *selection) sort() { slices.Sort(s.candidates) }
