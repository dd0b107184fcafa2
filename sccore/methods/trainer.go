package methods

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
)

// Run is what differs between runs that share a compiled step.
type Run struct {
	Recipe views.Recipe
	Seed   uint64
}

// Trainer holds the weights and the compiled step of one method; a step reports its loss. It is not safe for concurrent use.
type Trainer struct {
	*train.Trainer[float64]
	Config Config

	backend   compute.Backend
	objective *objective
	features  *model.Exec
}

// NewTrainer returns a trainer on images and compiles its step. It keeps all images on the device, as bytes. The error names the setting that is out
// of range.
func NewTrainer(b compute.Backend, images *datasets.Images, config Config) (*Trainer, error) {
	if err := settings.Check(config); err != nil {
		return nil, err
	}
	if images.Len() < config.Batch {
		return nil, fmt.Errorf("batch %d is larger than %s, which has %d images; --set batch=%d fits", config.Batch, images.Name, images.Len(), images.Len())
	}
	if images.Height != images.Width {
		return nil, fmt.Errorf("%s: images of %d×%d pixels are not square", images.Name, images.Width, images.Height)
	}
	pixels, err := place(b, images)
	if err != nil {
		return nil, err
	}
	t := &Trainer{Config: config, backend: b, objective: &objective{config: config, images: images, pixels: pixels}}
	if t.Trainer, err = train.New(b, t.objective.task()); err != nil {
		pixels.Close()
		return nil, err
	}
	if t.features, err = model.NewExec(b, t.Store(), t.featureGraph); err != nil {
		return nil, err
	}
	return t, nil
}

// SetImages sets the images of the runs to come: as many as before, and of one size with them.
func (t *Trainer) SetImages(images *datasets.Images) error {
	old := t.objective.images
	if images == old {
		return nil
	}
	if images.Len() != old.Len() || images.Height != old.Height || images.Width != old.Width {
		return fmt.Errorf("%d images of %d×%d pixels need another compiled step than %d of %d×%d", images.Len(), images.Width, images.Height, old.Len(), old.Width, old.Height)
	}
	t.Rewind()
	t.objective.pixels.Close()
	t.objective.images = images
	var err error
	t.objective.pixels, err = place(t.backend, images)
	return err
}

// place moves all images to each device.
func place(b compute.Backend, images *datasets.Images) (train.Placed, error) {
	return train.Place(b, tensors.FromFlatDataAndDimensions(images.Pixels, images.Len(), images.Height, images.Width, 3))
}

// Close frees the device's memory.
func (t *Trainer) Close() {
	t.features.Finalize()
	t.Trainer.Close()
	t.objective.pixels.Close()
}

// featureGraph maps images, [N, H, W, 3] of bytes, to the online backbone's features, [N, D], with running statistics.
func (t *Trainer) featureGraph(scope *model.Scope, images *Node) *Node {
	backbone, err := encoder.ByName(t.Config.Encoder)
	if err != nil {
		panic(err)
	}
	x := standardized(DivScalar(ConvertDType(images, dtypes.Float32), 255))
	return backbone.Features(scope.In(onlineScope).In("backbone"), x, layers.Norm{})
}

// Begin sets the weights to their initial values for run, which depend on its seed alone, and the position to step 0. Call it before Resume as well:
// checkpoints do not identify their run.
func (t *Trainer) Begin(run Run) error {
	if err := settings.Check(run.Recipe); err != nil {
		return err
	}
	t.Rewind()
	t.objective.recipe, t.objective.lossSum = run.Recipe, 0
	return t.Trainer.Begin(run.Seed)
}

// StepsPerEpoch is the number of whole batches in the images.
func (t *Trainer) StepsPerEpoch() int { return t.objective.stepsPerEpoch() }

// LearningRate is the learning rate of a step, counted from 0.
func (t *Trainer) LearningRate(step int) float64 { return t.objective.rate(step) }

// EpochLoss is the mean loss of the current epoch so far; right after an epoch's end it is the mean over that epoch.
func (t *Trainer) EpochLoss() float64 {
	if t.Done() == 0 {
		return 0
	}
	return t.objective.lossSum / float64((t.Done()-1)%t.StepsPerEpoch()+1)
}

// Features returns the backbone's features of images, one row each, not normalised.
func (t *Trainer) Features(images *datasets.Images) (*tensors.Tensor, error) {
	rows, dim, err := featuresOf(t.features, images, 1, func(_ int, pixels *tensors.Tensor) []any { return []any{pixels} })
	if err != nil {
		return nil, err
	}
	return tensors.FromFlatDataAndDimensions(rows, images.Len(), dim), nil
}

// SaveOnline writes the online encoder and its heads to path, without optimizer state. Tensors are named by the variables' paths below the online
// branch, with dots for slashes.
func (t *Trainer) SaveOnline(path string, metadata map[string]string) error {
	named := map[string]*tensors.Tensor{}
	for variable := range t.Store().Scope("/" + onlineScope).IterVariables() {
		value, err := variable.Value()
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		name := strings.TrimPrefix(variable.Path(), "/"+onlineScope+"/")
		named[strings.ReplaceAll(name, "/", ".")] = value
	}
	return safetensors.Write(path, named, metadata)
}

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
