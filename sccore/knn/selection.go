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

// selection holds the k nearest of the candidates that it was offered, and for a while others.
type selection struct {
	k          int
	candidates []candidate
	threshold  float32 // What is not nearer than this is not among the k nearest.
}

func (s *selection) reset() {
	s.candidates, s.threshold = s.candidates[:0], float32(math.Inf(-1))
}

// offer takes the similarities of features with consecutive indices, higher than all before.
func (s *selection) offer(similarities []float32, first int) {
	threshold := s.threshold
	for i, similarity := range similarities {
		if similarity > threshold { // An equal one has a higher index than those held.
			if s.candidates = append(s.candidates, newCandidate(similarity, first+i)); len(s.candidates) >= 2*s.k+16 {
				s.shrink()
				threshold = s.threshold
			}
		}
	}
}

// shrink leaves the k nearest, in order.
func (s *selection) shrink() {
	slices.Sort(s.candidates)
	if len(s.candidates) >= s.k {
		s.candidates = s.candidates[:s.k]
		s.threshold = s.candidates[s.k-1].similarity()
	}
}
