package methods

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"

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

// objective is a method as package train takes it: the graph of its step, and the batches.
type objective struct {
	config Config
	images *datasets.Images
	pixels train.Input // All images, on each device.

	recipe  views.Recipe // The current run's.
	seed    uint64       // The seed and epoch that order was drawn for.
	epoch   int
	order   []int32 // The epoch's order of images; nil before the first step.
	lossSum float64 // The sum over the steps of the last step's epoch.
}

// Shapes are the shapes of all images, [N, H, W, 3]; the batch's indices, [B]; its views' parameters, [2B, NumParams]; MoCo's shuffle, [B]; and
// [learning rate, target momentum].
func (o *objective) Shapes() []shapes.Shape {
	batch := o.config.Batch
	return []shapes.Shape{
		o.pixels.Shape(), shapeOf[int32](batch), shapeOf[float32](2*batch, views.NumParams), shapeOf[int32](batch), shapeOf[float32](2),
	}
}

// Divided divides a batch and its views over devices. Each device has all images.
func (o *objective) Divided() []bool { return []bool{false, true, true, false, false} }

// Graph is one training step. It returns the loss.
func (o *objective) Graph(scope *model.Scope, inputs []*Node) []*Node {
	images, indices, params, shuffle, scheduled := inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]
	g := images.Graph()
	batch := Gather(images, InsertAxes(indices, -1))
	batch.AssertDims(o.config.Batch, o.images.Height, o.images.Width, 3)
	rate := Reshape(Slice(scheduled, AxisElem(0)))
	targetMomentum := Reshape(Slice(scheduled, AxisElem(1)))

	loss := o.config.loss(scope, views.Apply(batch, params, o.images.Height), shuffle, targetMomentum)

	var learnt []*model.Variable
	var values []*Node
	for variable := range scope.At(onlineScope).IterVariables() {
		if variable.Trainable {
			learnt = append(learnt, variable)
			values = append(values, variable.NodeValue(g))
		}
	}
	sgd := optim.SGD{Momentum: o.config.Momentum, WeightDecay: o.config.WeightDecay}
	sgd.Update(scope.In(optimizerScope), learnt, Gradient(loss, values...), rate)
	return []*Node{loss}
}

// Steps is the number of steps of a run.
func (o *objective) Steps() int { return o.config.Epochs * o.stepsPerEpoch() }

// Workload counts the images of a step, and no products.
func (o *objective) Workload() train.Workload { return train.Workload{Images: o.config.Batch} }

func (o *objective) stepsPerEpoch() int { return o.images.Len() / o.config.Batch }

// rate is the learning rate of a step.
func (o *objective) rate(step int) float64 {
	return optim.Cosine(step, o.Steps(), o.config.WarmupEpochs*o.stepsPerEpoch(), o.config.LearningRate, 0)
}

// Inputs draws the batch of a step and its views.
func (o *objective) Inputs(_ context.Context, at train.At) ([]any, error) {
	s, perEpoch := o.config, o.stepsPerEpoch()
	epoch, place := at.Step/perEpoch, at.Step%perEpoch
	if o.order == nil || o.seed != at.Seed || o.epoch != epoch {
		o.seed, o.epoch, o.order = at.Seed, epoch, shuffledOrder(at.Seed, "order", epoch, o.images.Len())
	}
	indices := o.order[place*s.Batch : (place+1)*s.Batch]
	params := o.recipe.Draw(at.Seed, epoch, indices, 2, o.images.Height, o.images.Width)
	shuffle := make([]int32, s.Batch)
	targetMomentum := s.TargetMomentum
	if s.Method == MoCo {
		shuffle = shuffledOrder(at.Seed, "keys", at.Step, s.Batch)
		if at.Step == 0 {
			targetMomentum = 0
		}
	}
	return []any{o.pixels, append([]int32(nil), indices...), params, shuffle, []float32{float32(o.rate(at.Step)), float32(targetMomentum)}}, nil
}

// Metrics reads the loss and adds it to its epoch's sum.
func (o *objective) Metrics(loss *float64, at train.At, outputs []*tensors.Tensor) {
	*loss = float64(tensors.ToScalar[float32](outputs[0]))
	if at.Step%o.stepsPerEpoch() == 0 {
		o.lossSum = 0
	}
	o.lossSum += *loss
}

// Diverged looks at the loss.
func (o *objective) Diverged(loss float64) string {
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Sprintf("it is %g", loss)
	}
	return ""
}

// position is the state of a run in a checkpoint. The caller must know the run's seed and recipe.
type position struct {
	Done    int     `json:"done"`
	LossSum float64 `json:"loss_sum"`
}

// Metadata writes the position.
func (o *objective) Metadata(at train.Position) (map[string]string, error) {
	encoded, err := json.Marshal(position{at.Done, o.lossSum})
	return map[string]string{"position": string(encoded)}, err
}

// Restore reads the position.
func (o *objective) Restore(metadata map[string]string, begun train.Position) (train.Position, error) {
	var p position
	if err := json.Unmarshal([]byte(metadata["position"]), &p); err != nil {
		return begun, fmt.Errorf("position in the run: %w", err)
	}
	o.lossSum = p.LossSum
	return train.Position{Seed: begun.Seed, Done: p.Done}, nil
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

// shapeOf is the shape of an input of the step.
func shapeOf[T int32 | float32](dimensions ...int) shapes.Shape {
	return shapes.Make(dtypes.FromGenericsType[T](), dimensions...)
}
