package methods

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
)

// objective is a method on images: its loss and its batches.
type objective struct {
	config Config
	images *datasets.Images
	pixels train.Placed // All images, on each device.

	recipe  views.Recipe // The current run's.
	lossSum float64      // The sum over the steps of the last step's epoch.
}

// task is what package train trains. Devices share a batch and its views; each has all images.
func (o *objective) task() train.Task[float64] {
	batch, side := o.config.Batch, o.images.Height
	return train.Task[float64]{
		Steps: func() int { return o.config.Epochs * o.stepsPerEpoch() }, Ahead: true, Batches: o.batches, Schedule: o.schedule, Learnt: onlineScope,
		Inputs: []train.Input{
			{Shape: shapes.Make(dtypes.Uint8, o.images.Len(), side, side, 3)}, {Shape: shapes.Make(dtypes.Int32, batch), Divided: true},
			{Shape: shapes.Make(dtypes.Float32, 2*batch, views.NumParams), Divided: true}, {Shape: shapes.Make(dtypes.Int32, batch)},
		},
		Loss: o.loss,
		Update: func(scope *model.Scope, variables []*model.Variable, gradients []*Node, schedule *Node) []train.Report[float64] {
			sgd := optim.SGD{Momentum: o.config.Momentum, WeightDecay: o.config.WeightDecay}
			sgd.Update(scope.In(optimizerScope), variables, gradients, Reshape(Slice(schedule, AxisElem(0))))
			return nil
		},
		Save: func(at train.Position, metadata map[string]string) error {
			encoded, err := json.Marshal(position{at.Done, o.lossSum})
			metadata["position"] = string(encoded)
			return err
		},
		Restore: func(metadata map[string]string, _ *train.Position) error {
			var p position
			err := json.Unmarshal([]byte(metadata["position"]), &p)
			o.lossSum = p.LossSum
			return err
		},
		Workload: train.Workload{Images: batch},
	}
}

// position is the state of a run in a checkpoint. The caller must know the run's seed and recipe.
type position struct {
	Done    int     `json:"done"`
	LossSum float64 `json:"loss_sum"`
}

// loss is the method's loss on a batch of the images.
func (o *objective) loss(scope *model.Scope, inputs []*Node) (*Node, []train.Report[float64]) {
	images, indices, params, shuffle, schedule := inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]
	batch := Gather(images, InsertAxes(indices, -1))
	batch.AssertDims(o.config.Batch, o.images.Height, o.images.Width, 3)
	targetMomentum := Reshape(Slice(schedule, AxisElem(1)))
	loss := o.config.loss(scope, views.Apply(batch, params, o.images.Height), shuffle, targetMomentum)
	report := train.Mean("loss", loss, func(loss *float64) *float64 { return loss })
	read := report.Read
	report.Read = func(loss *float64, at train.At, value *tensors.Tensor) string {
		diverged := read(loss, at, value)
		if at.Step%o.stepsPerEpoch() == 0 {
			o.lossSum = 0
		}
		o.lossSum += *loss
		return diverged
	}
	return loss, []train.Report[float64]{report}
}

func (o *objective) stepsPerEpoch() int { return o.images.Len() / o.config.Batch }

// rate is the learning rate of a step.
func (o *objective) rate(step int) float64 {
	return optim.Cosine(step, o.config.Epochs*o.stepsPerEpoch(), o.config.WarmupEpochs*o.stepsPerEpoch(), o.config.LearningRate, 0)
}

// schedule is the learning rate and MoCo's momentum of a step.
func (o *objective) schedule(step int) []float32 {
	momentum := o.config.TargetMomentum
	if o.config.Method == MoCo && step == 0 {
		momentum = 0
	}
	return []float32{float32(o.rate(step)), float32(momentum)}
}

// batches draws the batches of a run and their views.
func (o *objective) batches(_ context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] {
	return func(yield func(train.Batch, error) bool) {
		s, perEpoch := o.config, o.stepsPerEpoch()
		var order []int32 // Of the images in the epoch.
		for step := from; ; step++ {
			epoch, place := step/perEpoch, step%perEpoch
			if order == nil || place == 0 {
				order = shuffledOrder(seed, "order", epoch, o.images.Len())
			}
			indices := order[place*s.Batch : (place+1)*s.Batch]
			params := o.recipe.Draw(seed, epoch, indices, 2, o.images.Height, o.images.Width)
			shuffle := make([]int32, s.Batch)
			if s.Method == MoCo {
				shuffle = shuffledOrder(seed, "keys", step, s.Batch)
			}
			if !yield(train.Batch{Inputs: []any{o.pixels, slices.Clone(indices), params, shuffle}}, nil) {
				return
			}
		}
	}
}

// shuffledOrder is a permutation of 0…n−1 that depends on its arguments alone.
func shuffledOrder(seed uint64, purpose string, at, n int) []int32 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[0:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(at))
	copy(key[16:], purpose)
	random := rand.New(rand.NewChaCha8(key))
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	random.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}
