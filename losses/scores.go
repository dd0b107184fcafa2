package losses

import (
	"errors"
	"fmt"
)

// checkScores returns an error that names the first score that is NaN or outside [0, 1]. p are online scores and q target scores, one each per patch
// pair.
func checkScores(p, q []float64) error {
	if len(p) != len(q) {
		return fmt.Errorf("%d online scores for %d target scores", len(p), len(q))
	}
	if len(p) == 0 {
		return errors.New("no patch pairs")
	}
	for i := range p {
		if !(p[i] >= 0 && p[i] <= 1) {
			return fmt.Errorf("the online score of pair %d is %v, not in [0, 1]", i, p[i])
		}
		if !(q[i] >= 0 && q[i] <= 1) {
			return fmt.Errorf("the target score of pair %d is %v, not in [0, 1]", i, q[i])
		}
	}
	return nil
}
