package losses_test

import (
	"math"
	"math/rand/v2"

	"github.com/semcon/semcon/losses"
)

// These references for the ranking losses follow the formulas, one pair of pairs at a time.

func apReference(p, q []float64, threshold float64) float64 {
	sum, positives := 0.0, 0.0
	for i := range p {
		if q[i] < threshold {
			continue
		}
		positives++
		above, below := 0.0, 0.0 // R⁺, R⁻
		for j := range p {
			switch {
			case p[i] <= p[j] && q[j] >= threshold:
				above++
			case p[i] <= p[j]:
				below++
			}
		}
		sum += below / (above + below)
	}
	return sum / positives
}

func definitionReference(p, q []float64, weight func(float64) float64) float64 {
	sum := 0.0
	for _, threshold := range q {
		sum += weight(threshold) * apReference(p, q, threshold)
	}
	return sum / float64(len(p))
}

func boundReference(p, q []float64, weight func(float64) float64) float64 {
	sum := 0.0
	for i := range p {
		gamma, lower, same := 0.0, 0.0, 0.0
		for k := range q {
			if q[k] <= q[i] {
				rank := 0.0
				for _, other := range q {
					if other >= q[k] {
						rank++
					}
				}
				gamma += weight(q[k]) / rank
			}
			switch {
			case p[i] <= p[k] && q[k] < q[i]:
				lower++
			case p[i] <= p[k]:
				same++
			}
		}
		sum += gamma * lower / (lower + same)
	}
	return sum / float64(len(p))
}

func huberReference(x, margin float64) (value, slope float64) {
	switch {
	case x < 0:
		return 1 - 2*x/margin, -2 / margin
	case x < margin:
		return (1 - x/margin) * (1 - x/margin), -2 / margin * (1 - x/margin)
	}
	return 0, 0
}

// cotapReference is the differentiable loss and its gradient through ℓ.
func cotapReference(c losses.CoTAP, p, q []float64) (loss float64, gradient []float64) {
	n := float64(len(p))
	gradient = make([]float64, len(p))
	for i := range p {
		sum, same := 0.0, 0.0
		for j := range p {
			if q[j] < q[i] {
				value, _ := huberReference(p[i]-p[j], c.Margin)
				sum += value
			} else if p[j] >= p[i] {
				same++
			}
		}
		gamma, x := math.Max(q[i]-c.Threshold, 0), sum/same
		loss += gamma * x / (1 + x) / n
		for j := range p {
			if q[j] < q[i] {
				_, slope := huberReference(p[i]-p[j], c.Margin)
				pull := gamma / ((1 + x) * (1 + x)) / same * slope / n
				gradient[i] += pull
				gradient[j] -= pull
			}
		}
	}
	return loss, gradient
}

// scoresOf draws n scores: any numbers in [0, 1] if levels is 0, else one of that many values, which makes ties.
func scoresOf(rng *rand.Rand, n, levels int) []float64 {
	scores := make([]float64, n)
	for i := range scores {
		if levels == 0 {
			scores[i] = rng.Float64()
		} else {
			scores[i] = float64(rng.IntN(levels)) / float64(levels)
		}
	}
	return scores
}

// closeScoresOf are scores within 10⁻⁴ of each other.
func closeScoresOf(rng *rand.Rand, n int) []float64 {
	scores := scoresOf(rng, n, 0)
	for i := range scores {
		scores[i] = 0.7 + 1e-4*scores[i]
	}
	return scores
}
