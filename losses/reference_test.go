package losses_test

import (
	"math"
	"math/rand/v2"
)

// These plain-Go float64 references follow the papers' formulas, one element at a time.

type matrix [][]float64

func randomMatrix(rng *rand.Rand, rows, columns int) matrix {
	m := make(matrix, rows)
	for i := range m {
		m[i] = make([]float64, columns)
		for j := range m[i] {
			m[i][j] = rng.NormFloat64()
		}
	}
	return m
}

func cosine(a, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+a[i]*b[i], aa+a[i]*a[i], bb+b[i]*b[i]
	}
	return ab / math.Sqrt(aa*bb)
}

// crossEntropy is −log of the softmax probability of the first score.
func crossEntropy(scores []float64) float64 {
	total := 0.0
	for _, s := range scores {
		total += math.Exp(s - scores[0])
	}
	return math.Log(total)
}

func ntxentReference(z1, z2 matrix, temperature float64) float64 {
	all := append(append(matrix{}, z1...), z2...)
	total := 0.0
	for i := range all {
		partner := (i + len(z1)) % len(all)
		scores := []float64{cosine(all[i], all[partner]) / temperature}
		for j := range all {
			if j != i && j != partner {
				scores = append(scores, cosine(all[i], all[j])/temperature)
			}
		}
		total += crossEntropy(scores)
	}
	return total / float64(len(all))
}

func infonceReference(queries, keys, queue matrix, temperature float64) float64 {
	total := 0.0
	for i := range queries {
		scores := []float64{cosine(queries[i], keys[i]) / temperature}
		for _, k := range queue {
			scores = append(scores, cosine(queries[i], k)/temperature)
		}
		total += crossEntropy(scores)
	}
	return total / float64(len(queries))
}

func barlowReference(z1, z2 matrix, offDiagonal float64) float64 {
	standard := func(z matrix, feature int) []float64 {
		mean, variance := 0.0, 0.0
		for i := range z {
			mean += z[i][feature] / float64(len(z))
		}
		for i := range z {
			variance += (z[i][feature] - mean) * (z[i][feature] - mean) / float64(len(z))
		}
		out := make([]float64, len(z))
		for i := range z {
			out[i] = (z[i][feature] - mean) / math.Sqrt(variance+1e-5)
		}
		return out
	}
	total := 0.0
	for a := range z1[0] {
		for b := range z2[0] {
			left, right, c := standard(z1, a), standard(z2, b), 0.0
			for i := range left {
				c += left[i] * right[i] / float64(len(left))
			}
			if a == b {
				total += (1 - c) * (1 - c)
			} else {
				total += offDiagonal * c * c
			}
		}
	}
	return total
}

func negativeCosineReference(predictions, targets matrix) float64 {
	total := 0.0
	for i := range predictions {
		total -= cosine(predictions[i], targets[i])
	}
	return total / float64(len(predictions))
}
