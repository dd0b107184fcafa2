package losses

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
)

// SmoothAP is the average-precision loss with sigmoids for the steps of the ranks (Brown et al. 2020, arXiv 2007.12163; SmoothAP in
// Andrew-Brown1/Smooth_AP): 1 − AP, with
//
//	AP = 1/|P| Σ_{i ∈ P} (1 + Σ_{j ∈ P, j ≠ i} σ(D_ij)) / (1 + Σ_{j ≠ i} σ(D_ij)),   D_ij = (s_j − s_i)/τ
//
// P are the positives, τ is Temperature, and s = 2p − 1 is the cosine of a pair, so that τ means what it means in the source.
//
// It takes what [CoTAP] takes. The source has one ranking for each item of a batch, with the items of its class, itself included, for positives; here,
// each row of p is a ranking, and pairs of q ≥ Threshold are its positives.
type SmoothAP struct {
	Threshold   float64 `json:"threshold"`   // In (0, 1]: target scores from here on are positive.
	Temperature float64 `json:"temperature"` // From 10⁻⁴ to 10⁴: small values make steep sigmoids.
}

// DefaultSmoothAP has 0.01, the temperature of the code's example. The source's positives are labels and need no threshold; 0.5 is ours, a cosine of 0.
func DefaultSmoothAP() SmoothAP { return SmoothAP{Threshold: 0.5, Temperature: 0.01} }

// Check returns an error that names the first setting that is out of range.
func (c SmoothAP) Check() error {
	if !(c.Temperature >= leastMargin && c.Temperature <= limit) {
		return fmt.Errorf("temperature %v is not in [%v, %v]", c.Temperature, leastMargin, limit)
	}
	return checkThreshold(c.Threshold)
}

// Loss is the mean over the rankings that have positives, and 0 if none has. p and q are [R, N], or [N] for one ranking, and hold the scores of N patch
// pairs of each of R image pairs, in [0, 1] and one dtype. Differentiable in p only. The loss is in [0, 1), and NaN if a score is NaN or out of range.
//
// Time and memory are O(R·N²). To rank the patches of one image for each patch of the other, which takes far less, reshape the scores of
// [Correspondence] to a row for each patch.
func (c SmoothAP) Loss(p, q *Node) *Node {
	if err := c.Check(); err != nil {
		panic(err)
	}
	scores, positive := ranking(p, q, c.Threshold)
	difference := Sub(InsertAxes(scores, 1), InsertAxes(scores, 2)) // Of j and i, [R, i, j].
	above := Sigmoid(MulScalar(difference, 2/c.Temperature))
	// The sums have σ(0) = 1/2 for the pair itself.
	rank := func(of *Node) *Node { return AddScalar(ReduceSum(of, -1), 0.5) }
	precision := Div(rank(Mul(above, InsertAxes(positive, 1))), rank(above))
	return apLoss(ReduceSum(Mul(positive, precision), -1), ReduceSum(positive, -1), p, q)
}
