package knn

import (
	"fmt"
	"math"
)

// Match is a pair of features of two sets that are each other's nearest.
type Match struct {
	First, Second int     // Places in the two sets.
	Similarity    float64 // Their cosine.
}

// Mutual returns the mutual nearest neighbours of two sets of features, [N, dim] and [M, dim], whose cosine similarity is at least threshold, in
// the order of the first set. Of equally near features the one with the lower place is nearest. It holds N·M similarities; it is for the patches of
// two images. A feature that is zero or not finite is an error.
func Mutual(first, second []float32, dim int, threshold float64) ([]Match, error) {
	a, err := directions(first, dim, "first")
	if err != nil {
		return nil, err
	}
	b, err := directions(second, dim, "second")
	if err != nil {
		return nil, err
	}
	best, back := make([]int, len(a)), make([]int, len(b))
	most, mostBack := make([]float64, len(a)), make([]float64, len(b))
	for i, x := range a {
		for j, y := range b {
			similarity := 0.0
			for d := range x {
				similarity += x[d] * y[d]
			}
			if j == 0 || similarity > most[i] {
				best[i], most[i] = j, similarity
			}
			if i == 0 || similarity > mostBack[j] {
				back[j], mostBack[j] = i, similarity
			}
		}
	}
	var matches []Match
	for i, j := range best {
		if len(b) > 0 && back[j] == i && most[i] >= threshold {
			matches = append(matches, Match{i, j, most[i]})
		}
	}
	return matches, nil
}

// directions scales features to length 1.
func directions(features []float32, dim int, set string) ([][]float64, error) {
	if dim < 1 || len(features)%dim != 0 {
		return nil, fmt.Errorf("mutual neighbours: %d numbers in the %s set do not make features of %d", len(features), set, dim)
	}
	rows := make([][]float64, len(features)/dim)
	for i := range rows {
		square := 0.0
		for _, x := range features[i*dim : (i+1)*dim] {
			rows[i] = append(rows[i], float64(x))
			square += float64(x) * float64(x)
		}
		if !(square > 0) || math.IsInf(square, 0) {
			return nil, fmt.Errorf("mutual neighbours: feature %d of the %s set has squared length %g", i, set, square)
		}
		for d := range rows[i] {
			rows[i][d] /= math.Sqrt(square)
		}
	}
	return rows, nil
}
