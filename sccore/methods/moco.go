package methods

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/train"
)

// mocoLoss contrasts the online encoder's queries (first views) with the target encoder's keys (second views) and a queue of earlier
// keys, then moves the keys into the queue.
//
// One device stands for MoCo's several: BatchNorm's statistics are of NormGroups groups of the batch ("split BN"), and the keys are
// computed in the order of shuffle, so that a query and its key do not share their group's statistics, which would give the answer
// away. The target's weights move first, by targetMomentum, as in the authors' code: targetMomentum 0 copies the online ones, as at the
// start of a run.
func (s Settings) mocoLoss(scope *model.Scope, views, shuffle, targetMomentum *Node) *Node {
	first, second := halves(views)
	norm := encoder.Norm{Train: true, Groups: s.NormGroups}
	online := scope.In(onlineScope)
	queries := s.projections(online, first, norm)
	target := scope.In(targetScope)
	train.UpdateEMA(online, target, targetMomentum)

	shuffled := Gather(second, InsertAxes(shuffle, -1))
	keys := s.projections(target, shuffled, norm)
	keys = StopGradient(losses.Unit(unshuffled(keys, shuffle)))

	queue := scope.WithInitializer(initializer.RandomNormalFn(scope, 1)).
		VariableWithShape("queue", shapes.Make(dtypes.Float32, s.Queue, s.ProjectorDim)).SetTrainable(false)
	earlier := queue.NodeValue(views)
	loss := losses.InfoNCE(queries, keys, earlier, s.Temperature)
	queue.SetNodeValue(Concatenate([]*Node{keys, Slice(earlier, AxisRange(0, s.Queue-s.Batch))}, 0))
	return loss
}

// unshuffled puts rows [B, D] that were computed in the order of the permutation shuffle [B] back in place.
func unshuffled(rows, shuffle *Node) *Node {
	g, batch := rows.Graph(), rows.Shape().Dimensions[0]
	// A one-hot product rather than an inverse permutation: no sort or scatter, and B is small.
	square := shapes.Make(shuffle.DType(), batch, batch)
	place := Equal(Iota(g, square, 0), BroadcastToDims(InsertAxes(shuffle, 0), batch, batch))
	return MatMul(ConvertDType(place, rows.DType()), rows)
}
