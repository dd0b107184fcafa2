package losses

import (
	"errors"
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph"
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

// checkThreshold returns an error if no score in [0, 1] is on one side of the threshold of positives.
func checkThreshold(threshold float64) error {
	if !(threshold > 0 && threshold <= 1) {
		return fmt.Errorf("threshold %v is not in (0, 1]", threshold)
	}
	return nil
}
