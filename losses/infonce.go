package losses

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// InfoNCE is MoCo's contrastive loss of queries with keys and a queue of earlier keys (He et al. 2020, eq. 1).
//
// queries and keys, [B, D], come from two views of the same images; queue, [K, D], holds keys of other images. All are scaled to length 1 here. Each
// query must identify its key among 1 + K candidates by cosine similarity over temperature (> 0). Differentiable in queries only: keys and queue are
// constants, as MoCo's key encoder takes no gradient.
func InfoNCE(queries, keys, queue *Node, temperature float64) *Node {
	keys.AssertDims(queries.Shape().Dimensions...)
	batch := queries.Shape().Dimensions[0]
	queries = Unit(queries)
	keys, queue = StopGradient(Unit(keys)), StopGradient(Unit(queue))

	positives := ReduceAndKeep(Mul(queries, keys), ReduceSum, -1)
	positives.AssertDims(batch, 1)
	others := MatMul(queries, Transpose(queue, 0, 1))
	others.AssertDims(batch, -1)
	logits := DivScalar(Concatenate([]*Node{positives, others}, -1), temperature)
	first := Equal(Iota(logits.Graph(), shapes.Make(logits.DType(), logits.Shape().Dimensions...), 1), ScalarZero(logits.Graph(), logits.DType()))
	return classificationLoss(logits, ConvertDType(first, logits.DType()))
}
