package metrics

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// EffectiveRank is the exponential of the entropy of a covariance's spectrum (Roy & Vetterli 2007), in [1, D], and 0 for features that do not vary.
// It is NaN if the covariance is not finite.
func EffectiveRank(covariance *mat.SymDense) float64 {
	var eigen mat.EigenSym
	if !eigen.Factorize(covariance, false) {
		return math.NaN()
	}
	total, entropy := 0.0, 0.0
	values := eigen.Values(nil)
	for _, value := range values {
		total += max(value, 0)
	}
	if total < 1e-24 {
		return 0
	}
	for _, value := range values {
		if share := value / total; share > 0 {
			entropy -= share * math.Log(share)
		}
	}
	return math.Exp(entropy)
}
