package losses

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/samber/lo"
	"github.com/semcon/semcon/losses/internal/pairsum"
	"github.com/semcon/semcon/sccore/settings"
)

// AP is the average-precision loss of online scores p against the labels q ≥ threshold (eq. def_auprc): the mean over positive pairs of R⁻/(R⁺ + R⁻).
// R⁺ and R⁻ count the positives, including the pair itself, and the negatives whose score is at least the pair's own. AP is in [0, 1) and 0 if every
// positive outranks every negative.
//
// p and q hold one score in [0, 1] per patch pair. It is an error if a score is out of range, if lengths differ, or if no target score reaches the threshold.
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
		tied := lo.CountBy(byP[begin:end], func(pair pairsum.Ranked) bool { return q[pair.Index] >= threshold })
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

// checkScores returns an error that names the first score that is NaN or outside [0, 1]. p are online scores and q target scores, one each per patch pair.
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

// ranking reads p and q, [R, N] or [N], as R rankings of N patch pairs by p in which the pairs of q ≥ threshold are positive. It returns p and a mark, 1
// or 0, of each positive, both [R, N].
func ranking(p, q *Node, threshold float64) (scores, positive *Node) {
	q.AssertDims(p.Shape().Dimensions...)
	n := p.Shape().Dim(-1)
	rows := func(x *Node) *Node { return Reshape(x, -1, n) }
	q = StopGradient(q)
	positive = GreaterOrEqual(q, Scalar(q.Graph(), q.DType(), threshold))
	return rows(p), ConvertDType(rows(positive), p.DType())
}

// TopShare marks the given share of all scores q that are highest with 1, and others with 0, for losses that need binary labels. Scores equal to the lowest
// of them are marked, too. Scores that are NaN or not in [0, 1] stay as they are, and the losses become NaN. No gradient passes.
func TopShare(q *Node, share float64) *Node {
	q = StopGradient(q)
	count := max(int(math.Round(share*float64(q.Shape().Size()))), 1)
	least := SliceAxis(Sort(Reshape(q, -1), 0, false), 0, AxisElem(count-1))
	return Where(inUnit(q), ConvertDType(GreaterOrEqual(q, Reshape(least)), q.DType()), q)
}

// apLoss is the mean of 1 − precision/positives over the rankings that have positives, or 0 if none has. precision and positives, [R], are the sum of
// the positives' precisions and their number. The loss is NaN if one of the scores is NaN or not in [0, 1].
func apLoss(precision, positives, p, q *Node) *Node {
	g, dtype := p.Graph(), p.DType()
	some := MinScalar(positives, 1)
	loss := Sub(some, Div(precision, MaxScalar(positives, 1)))
	mean := Div(ReduceAllSum(loss), MaxScalar(ReduceAllSum(some), 1))
	good := LogicalAll(And(inUnit(p), inUnit(q)))
	return Where(good, mean, Scalar(g, dtype, math.NaN()))
}

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
	Threshold float64 `json:"threshold" range:"(0,1]"` // Target scores from here on are positive.
	Bins      int     `json:"bins" range:"[1,1000]"`   // Intervals of width Δ = 1/Bins between Bins + 1 centres. The pulses take Bins times the memory of the scores.
}

// DefaultFastAP has the code's 10 bins. The source's positives are labels and need no threshold; 0.5 is ours, a cosine of 0.
func DefaultFastAP() FastAP { return FastAP{Threshold: 0.5, Bins: 10} }

// Loss is the mean over the rankings that have positives, as in the code, and 0 if none has. p and q are [R, N], or [N] for one ranking, and hold the scores of
// N patch pairs of each of R image pairs, in [0, 1] and one dtype. Differentiable in p only. The loss is in [0, 1], and NaN if a score is NaN or out of range.
//
// To rank the patches of one image for each patch of the other, reshape the scores of [Correspondence] to a row for each patch.
func (c FastAP) Loss(p, q *Node) *Node {
	settings.Require(c)
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
	Threshold   float64 `json:"threshold" range:"(0,1]"`        // Target scores from here on are positive.
	Temperature float64 `json:"temperature" range:"[1e-4,1e4]"` // Small values make steep sigmoids.
}

// DefaultSmoothAP has 0.01, the temperature of the code's example. The source's positives are labels and need no threshold; 0.5 is ours, a cosine of 0.
func DefaultSmoothAP() SmoothAP { return SmoothAP{Threshold: 0.5, Temperature: 0.01} }

// Loss is the mean over the rankings that have positives, and 0 if none has. p and q are [R, N], or [N] for one ranking, and hold the scores of N patch
// pairs of each of R image pairs, in [0, 1] and one dtype. Differentiable in p only. The loss is in [0, 1), and NaN if a score is NaN or out of range.
//
// Time and memory are O(R·N²). To rank the patches of one image for each patch of the other, which takes far less, reshape the scores of
// [Correspondence] to a row for each patch.
func (c SmoothAP) Loss(p, q *Node) *Node {
	settings.Require(c)
	scores, positive := ranking(p, q, c.Threshold)
	difference := Sub(InsertAxes(scores, 1), InsertAxes(scores, 2)) // Of j and i, [R, i, j].
	above := Sigmoid(MulScalar(difference, 2/c.Temperature))
	// The sums have σ(0) = 1/2 for the pair itself.
	rank := func(of *Node) *Node { return AddScalar(ReduceSum(of, -1), 0.5) }
	precision := Div(rank(Mul(above, InsertAxes(positive, 1))), rank(above))
	return apLoss(ReduceSum(Mul(positive, precision), -1), ReduceSum(positive, -1), p, q)
}
