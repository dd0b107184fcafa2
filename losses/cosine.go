package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// NegativeCosine is SimSiam's distance between a prediction and the projection of the other view (Chen & He 2021, eq. 1 and 3): minus the mean cosine
// similarity, in [−1, 1].
//
// predictions and targets are [B, D]. Differentiable in predictions only: targets take the stop-gradient without which SimSiam collapses.
func NegativeCosine(predictions, targets *Node) *Node {
	targets.AssertDims(predictions.Shape().Dimensions...)
	return Neg(ReduceAllMean(ReduceSum(Mul(Unit(predictions), StopGradient(Unit(targets))), -1)))
}
