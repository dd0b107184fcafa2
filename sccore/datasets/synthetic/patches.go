package synthetic

import (
	"math"
	"math/rand/v2"

	"github.com/samber/lo"
)

// PatchPairs configures pairs of images of patches. A patch is the direction of its class plus noise. Pseudo labels of patch pairs imitate a teacher's
// scores: high for pairs of one class, low for others, with noise. A flipped label is a score drawn for the wrong kind of pair.
type PatchPairs struct {
	Classes    int
	Dim        int     // Length of a patch feature.
	Noise      float64 // Standard deviation of a feature; a class's direction has length 1.
	Patches    int     // Patches per image.
	High, Low  float64 // Mean pseudo label of pairs of one class, and of other pairs.
	LabelNoise float64 // Standard deviation of both.
	Flipped    float64 // Share of pseudo labels that are flipped.
}

// Patches draws pairs of images of patches. The draws depend on the seed alone.
type Patches struct {
	config     PatchPairs
	Rand       *rand.Rand  // The source of the next draws.
	directions [][]float64 // Unit vectors of the classes. [Classes][Dim]
}

// NewPatches draws the directions of the classes.
func NewPatches(config PatchPairs, seed uint64) *Patches {
	random := rand.New(rand.NewPCG(seed, 25))
	return &Patches{config, random, lo.Times(config.Classes, func(int) []float64 { return randomUnit(random, config.Dim) })}
}

// ImagePairs are N pairs of images: features of the patches of the first and the second images, [N, Patches, Dim] each, pseudo labels
// of the pairs of patches, [N, Patches²], and whether their classes are the same.
type ImagePairs struct {
	N           int
	U, V        []float32
	Labels      []float32
	SameClasses []bool
}

// Draw draws n pairs of images.
func (w *Patches) Draw(n int) ImagePairs {
	c := w.config
	pairs := ImagePairs{N: n}
	image := func(features []float32) (classes []int, _ []float32) {
		for range c.Patches {
			class := w.Rand.IntN(c.Classes)
			classes = append(classes, class)
			for d := range c.Dim {
				features = append(features, float32(w.directions[class][d]+c.Noise*w.Rand.NormFloat64()))
			}
		}
		return classes, features
	}
	for range n {
		var first, second []int
		first, pairs.U = image(pairs.U)
		second, pairs.V = image(pairs.V)
		for _, a := range first {
			for _, b := range second {
				mean, flippedMean := c.Low, c.High
				if a == b {
					mean, flippedMean = flippedMean, mean
				}
				if w.Rand.Float64() < c.Flipped {
					mean = flippedMean
				}
				label := mean + c.LabelNoise*w.Rand.NormFloat64()
				pairs.Labels = append(pairs.Labels, float32(min(1, max(0, label))))
				pairs.SameClasses = append(pairs.SameClasses, a == b)
			}
		}
	}
	return pairs
}

// randomUnit is a random direction.
func randomUnit(rng *rand.Rand, dim int) []float64 {
	direction := lo.Times(dim, func(int) float64 { return rng.NormFloat64() })
	length := math.Sqrt(lo.SumBy(direction, func(x float64) float64 { return x * x }))
	return lo.Map(direction, func(x float64, _ int) float64 { return x / length })
}

// CorrespondenceScores simulates the scores of all pairs of patches of two images, [patches²] each: a student's p, a teacher's q, and whether the two patches
// have the same class. There are eight classes, each a direction in 32 dimensions. A branch's features are the direction plus noise with that branch's standard
// deviation. A score is (cosine similarity + 1)/2, as in trained networks. The same arguments always give the same scores.
func CorrespondenceScores(patches int, student, teacher float64, seed uint64) (p, q []float64, same []bool) {
	const classes, dim = 8, 32
	rng := rand.New(rand.NewPCG(seed, 8))
	vector := func(mean []float64, deviation float64) []float64 {
		return lo.Map(mean, func(m float64, _ int) float64 { return m + deviation*rng.NormFloat64() })
	}
	directions := lo.Times(classes, func(int) []float64 { return vector(make([]float64, dim), 1/math.Sqrt(dim)) })
	type patch struct {
		class            int
		student, teacher []float64
	}
	image := func() []patch {
		return lo.Times(patches, func(int) patch {
			class := rng.IntN(classes)
			return patch{class, vector(directions[class], student), vector(directions[class], teacher)}
		})
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
