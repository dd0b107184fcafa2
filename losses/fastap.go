package losses

import (
	"fmt"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// FastAP is the average-precision loss over a histogram of distances (Cakir et al. 2019, Deep Metric Learning to Rank; FastAP_loss.py in
// kunhe/FastAP-metric-learning): 1 − AP, with
//
//	AP = 1/N⁺ Σ_l h⁺_l H⁺_l / H_l
//
// h⁺_l is the number of positives in bin l, H⁺_l and H_l are the numbers of positives and of all pairs in bins 0 to l. Bins are triangular pulses
// around l·Δ: a pair between two centres counts in both, by its distance from each. A pair's distance is 1 − p; the paper's, 2 − 2 cos in [0, 4], is 4
// times that for p = (1 + cos)/2.
//
// It takes what [CoTAP] takes. The source has one ranking for each item of a batch, against the others, with labels for positives; here, each row of p
// is a ranking, and pairs of q ≥ Threshold are its positives.
type FastAP struct {
	Threshold float64 `json:"threshold"` // In (0, 1]: target scores from here on are positive.
	Bins      int     `json:"bins"`      // From 1 to 1000: intervals of width Δ = 1/Bins between Bins + 1 centres.
}

// mostBins bounds the memory for the pulses, which is Bins times that of the scores.
const mostBins = 1000

// DefaultFastAP has the code's 10 bins. The source's positives are labels and need no threshold; 0.5 is ours, a cosine of 0.
func DefaultFastAP() FastAP { return FastAP{Threshold: 0.5, Bins: 10} }

// Check returns an error that names the first setting that is out of range.
func (c FastAP) Check() error {
	if !(c.Bins >= 1 && c.Bins <= mostBins) {
		return fmt.Errorf("bins %d is not in [1, %d]", c.Bins, mostBins)
	}
	return checkThreshold(c.Threshold)
}

// Loss is the mean over the rankings that have positives, as in the code, and 0 if none has. p and q are [R, N], or [N] for one ranking, and hold the
// scores of N patch pairs of each of R image pairs, in [0, 1] and one dtype. Differentiable in p only. The loss is in [0, 1], and NaN if a score is NaN
// or out of range.
//
// To rank the patches of one image for each patch of the other, reshape the scores of [Correspondence] to a row for each patch.
func (c FastAP) Loss(p, q *Node) *Node {
	if err := c.Check(); err != nil {
		panic(err)
	}
	scores, positive := ranking(p, q, c.Threshold)
	g, dtype := p.Graph(), p.DType()
	bins := float64(c.Bins)

	// In units of Δ, the distance of a pair from bin l's centre is |bins·(1 − p) − l|.
	distance := MulScalar(OneMinus(InsertAxes(scores, -1)), bins)
	pulses := MaxScalar(OneMinus(Abs(Sub(distance, Iota(g, shapes.Make(dtype, 1, 1, c.Bins+1), 2)))), 0)
	histogram := func(x *Node) *Node { return ReduceSum(x, 1) }
	positives := histogram(Mul(pulses, InsertAxes(positive, -1)))
	above := CumSum(histogram(pulses), -1)
	empty := LessOrEqual(above, ZerosLike(above))
	terms := Div(Mul(positives, CumSum(positives, -1)), Where(empty, OnesLike(above), above))
	return apLoss(ReduceSum(terms, -1), ReduceSum(positive, -1), p, q)
}
