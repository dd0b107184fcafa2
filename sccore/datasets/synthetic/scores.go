package synthetic

import (
	"math"
	"math/rand/v2"
)

// CorrespondenceScores simulates the scores of all pairs of patches of two images, [patches²] each: a student's p, a teacher's q, and
// whether the two patches have the same class. There are eight classes, each a direction in 32 dimensions. A branch's features are the
// direction plus noise with that branch's standard deviation. A score is (cosine similarity + 1)/2, as in trained networks. The same
// arguments always give the same scores.
func CorrespondenceScores(patches int, student, teacher float64, seed uint64) (p, q []float64, same []bool) {
	const classes, dim = 8, 32
	rng := rand.New(rand.NewPCG(seed, 8))
	vector := func(mean []float64, deviation float64) []float64 {
		x := make([]float64, dim)
		for d := range x {
			x[d] = deviation * rng.NormFloat64()
			if mean != nil {
				x[d] += mean[d]
			}
		}
		return x
	}
	directions := make([][]float64, classes)
	for class := range directions {
		directions[class] = vector(nil, 1/math.Sqrt(dim))
	}
	type patch struct {
		class            int
		student, teacher []float64
	}
	image := func() []patch {
		drawn := make([]patch, patches)
		for i := range drawn {
			class := rng.IntN(classes)
			drawn[i] = patch{class, vector(directions[class], student), vector(directions[class], teacher)}
		}
		return drawn
	}
	first, second := image(), image()
	for _, a := range first {
		for _, b := range second {
			p = append(p, score(a.student, b.student))
			q = append(q, score(a.teacher, b.teacher))
			same = append(same, a.class == b.class)
		}
	}
	return p, q, same
}

// score is (cosine similarity + 1)/2, clamped to [0, 1] against rounding.
func score(a, b []float64) float64 {
	var ab, aa, bb float64
	for d := range a {
		ab, aa, bb = ab+a[d]*b[d], aa+a[d]*a[d], bb+b[d]*b[d]
	}
	return min(1, max(0, ab/math.Sqrt(aa*bb)/2+0.5))
}
