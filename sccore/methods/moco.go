package methods

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/train"
)

// mocoLoss contrasts the online encoder's queries (first views) with the target encoder's keys (second views) and a queue of earlier keys, then moves
// the keys into the queue.
//
// One device replaces MoCo's several: BatchNorm has separate statistics for NormGroups groups of the batch ("split BN"), and the keys are computed in
// the order of shuffle, so that a query and its key do not share statistics, which would leak the answer. The target's weights move first, by
// targetMomentum, as in the authors' code; 0 copies the online weights, as at the start of a run.
func (c Config) mocoLoss(scope *model.Scope, views, shuffle, targetMomentum *Node) *Node {
	first, second := halves(views)
	norm := layers.Norm{Train: true, Groups: c.NormGroups}
	online := scope.In(onlineScope)
	queries := c.projections(online, first, norm)
	target := scope.In(targetScope)
	train.UpdateEMA(online, target, targetMomentum)

	shuffled := Gather(second, InsertAxes(shuffle, -1))
	keys := c.projections(target, shuffled, norm)
	keys = StopGradient(losses.Unit(unshuffled(keys, shuffle)))

	queue := scope.WithInitializer(initializer.RandomNormalFn(scope, 1)).
		VariableWithShape("queue", shapes.Make(dtypes.Float32, c.Queue, c.ProjectorDim)).SetTrainable(false)
	earlier := queue.NodeValue(views)
	loss := losses.InfoNCE(queries, keys, earlier, c.Temperature)
	queue.SetNodeValue(Concatenate([]*Node{keys, Slice(earlier, AxisRange(0, c.Queue-c.Batch))}, 0))
	return loss
}

// unshuffled restores the order of rows, [B, D], that were computed in the order of the permutation shuffle, [B].
func unshuffled(rows, shuffle *Node) *Node {
	g, batch := rows.Graph(), rows.Shape().Dimensions[0]
	// A one-hot product instead of an inverse permutation needs no sort or scatter, and B is small.
	square := shapes.Make(shuffle.DType(), batch, batch)
	place := Equal(Iota(g, square, 0), BroadcastToDims(InsertAxes(shuffle, 0), batch, batch))
	return MatMul(ConvertDType(place, rows.DType()), rows)
}
