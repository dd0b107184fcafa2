package losses

import (
	"fmt"

	"github.com/semcon/semcon/losses/internal/pairsum"
)

// AP is the average-precision loss of online scores p against the labels q ≥ threshold (eq. def_auprc): the mean over positive pairs of R⁻/(R⁺ + R⁻).
// R⁺ and R⁻ count the positives, including the pair itself, and the negatives whose score is at least the pair's own. AP is in [0, 1) and 0 if every
// positive outranks every negative.
//
// p and q hold one score in [0, 1] per patch pair. It is an error if a score is out of range, if lengths differ, or if no target score reaches the
// threshold.
func AP(p, q []float64, threshold float64) (float64, error) {
	if err := checkScores(p, q); err != nil {
		return 0, err
	}
	loss, positives := apOf(pairsum.Descending(p), q, threshold)
	if positives == 0 {
		return 0, fmt.Errorf("no target score reaches the threshold %v", threshold)
	}
	return loss, nil
}

// apOf is [AP] of pairs sorted by descending p. It also returns the number of positives.
func apOf(byP []pairsum.Ranked, q []float64, threshold float64) (loss float64, positives int) {
	pairsum.TieGroups(byP, func(begin, end int) {
		tied := 0
		for _, pair := range byP[begin:end] {
			if q[pair.Index] >= threshold {
				tied++
			}
		}
		positives += tied
		if tied > 0 {
			loss += float64(tied) * float64(end-positives) / float64(end)
		}
	})
	if positives > 0 {
		loss /= float64(positives)
	}
	return loss, positives
}
