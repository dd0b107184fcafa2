package sccore

import (
	"cmp"
	"fmt"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/settings"
)

// Sinkhorn is the Sinkhorn–Knopp algorithm SK of "Cross-view alignment" (Cuturi 2013). It turns the target branch's outputs into targets:
// distributions over the D entries of an output that are sharp one by one and uniform on average.
type Sinkhorn struct {
	Iterations int     `json:"iterations"` // At least 1.
	Epsilon    float64 `json:"epsilon"`    // Temperature, above 0; a lower one gives sharper targets.
}

// DefaultSinkhorn returns 3 iterations at ε = 0.05, as in SwAV, DINO and Leopart; the paper gives neither.
func DefaultSinkhorn() Sinkhorn { return Sinkhorn{Iterations: 3, Epsilon: 0.05} }

// Check returns an error that names the setting that is out of range.
func (s Sinkhorn) Check() error {
	if err := cmp.Or(settings.Between("iterations", s.Iterations, 1, 1000), settings.Above("epsilon", s.Epsilon, 1e6)); err != nil { // The graph has a step for each iteration.
		return fmt.Errorf("sinkhorn: %w", err)
	}
	return nil
}

// Targets returns distributions q, [N, D], for scores, [N, D]: each row sums to 1, and each column to about N/D. An iteration scales columns to equal
// sums, then rows, starting from exp(scores/ε). Sums run over all N rows: the whole batch, and for patches all patches of it. By E2 the scores are
// the target branch's; no gradient passes. [losses.SinkhornKnopp] is the algorithm.
func (s Sinkhorn) Targets(scores *Node) *Node {
	return losses.SinkhornKnopp(DivScalar(scores, s.Epsilon), nil, s.Iterations)
}
