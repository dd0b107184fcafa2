package finetune

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// The scopes of a trainer's variables, below which names are mmsegmentation's.
const (
	backboneScope    = "backbone"
	optimizerScope   = "optimizer"
	accumulatedScope = "accumulated"
)

// Training is the configuration of a fine-tuning for semantic segmentation.
type Training struct {
	Segmenter Segmenter
	Optimizer Optimizer
	CropSize  int // Side of the training crops in pixels, whole patches.
	Batch     int // Crops in a step.
	Parts     int // Equal parts that a batch is computed in, one after the other, if it does not fit in memory. Batch statistics are those of a part.
	Steps     int

	Mean, Std [3]float64 // Of red, green and blue in [0, 1], as the encoder expects; see [datasets.Preprocessing].
}

// Check returns an error that names the first setting that is out of range.
func (t Training) Check() error {
	if err := t.Segmenter.Check(); err != nil {
		return err
	}
	if err := t.Optimizer.Check(); err != nil {
		return err
	}
	if err := cmp.Or(
		settings.Between("crop_size", t.CropSize, 1, settings.MaxImageSize), settings.Between("batch", t.Batch, 1, 1<<12), settings.Between("parts", t.Parts, 1, t.Batch),
		settings.Between("steps", t.Steps, 1, math.MaxInt32),
	); err != nil {
		return err
	}
	if t.Batch%t.Parts != 0 {
		return fmt.Errorf("batch %d is not a multiple of parts %d", t.Batch, t.Parts)
	}
	v, part := t.Segmenter.ViT, t.Batch/t.Parts
	if t.CropSize%v.PatchSize != 0 {
		return fmt.Errorf("crop_size %d is not a multiple of the patch size, %d", t.CropSize, v.PatchSize)
	}
	if t.Segmenter.Head == UPerNet && part < 2 {
		return fmt.Errorf("batch %d in parts %d: UPerNet normalises one bin over the crops of a part, and needs two", t.Batch, t.Parts)
	}
	side := t.CropSize / v.PatchSize
	return cmp.Or(
		settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("attention of %d crops of crop_size %d", part, t.CropSize), 4, part, v.NumHeads, side*side, side*side),
		settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("maps of %d channels of %d crops of crop_size %d", t.Segmenter.Channels, part, t.CropSize),
			4, part, 16*side*side, 4*t.Segmenter.Channels),
	)
}

// Step is what a training step reports: the mean losses of its crops before the update, and the learning rate of the head.
type Step struct{ Loss, Auxiliary, Rate float64 }

// Trainer fine-tunes a [Segmenter] with all its weights. It is compiled once and serves any number of runs.
type Trainer struct {
	*train.Trainer[Step]
	// Loader makes what the run trains on. The trainer sets its seed and its batch size, and its crops must have the configured size.
	Loader SegmentationLoader
	// Skipped is told of images that cannot be used, if the loader skips them.
	Skipped func(datasets.Skipped)
	// Pretrained holds the encoder's weights, at its root, that a run begins with. Nil starts from random ones.
	Pretrained *model.Store

	config    Training
	objective *objective
	logits    *model.Exec
}

// NewTrainer compiles the step. Skipped images are ignored unless Skipped is set.
func NewTrainer(b compute.Backend, config Training) (*Trainer, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	t := &Trainer{config: config, Skipped: func(datasets.Skipped) {}}
	var err error
	t.objective = &objective{Training: config, of: t}
	if t.Trainer, err = train.New(b, t.objective); err != nil {
		return nil, err
	}
	t.logits, err = newSegmentExec(b, t.Store(), config.Segmenter, config.Mean, config.Std)
	return t, err
}

// Close frees the device's memory and stops the loader.
func (t *Trainer) Close() {
	t.objective.stop()
	t.logits.Finalize()
	t.Trainer.Close()
}

// Segment returns the logits that the weights of now give to crops, for [Inference].
func (t *Trainer) Segment(ctx context.Context, crops Crops) (Logits, error) {
	return segmentWith(t.logits, t.config.Segmenter)(ctx, crops)
}

// objective is the loss of a segmenter on crops.
type objective struct {
	Training
	of    *Trainer
	batch []*tensors.Tensor // Crops and labels of the current part.

	next  func() (*SegmentationBatch, error, bool) // The loader's next batch; nil before the first one.
	close func()
	at    train.At // The part of a step that next is for.
}

// Steps is the number of steps of a run.
func (o *objective) Steps() int { return o.Training.Steps }

// Workload counts a step by [Segmenter.FLOPs].
func (o *objective) Workload() train.Workload {
	return train.Workload{
		Images: o.Batch, FLOPs: 3 * float64(o.Batch) * o.Segmenter.FLOPs(o.CropSize), BFloat16: o.Segmenter.ViT.ComputeDType.IsHalfPrecision(),
	}
}

// Parts is the number of parts of a batch.
func (o *objective) Parts() int { return o.Training.Parts }

// Shapes are the shapes of crops, labels, what images fill of the crops, the factors of stochastic depth, and the learning rate.
func (o *objective) Shapes() []shapes.Shape {
	part, size := o.part(), o.CropSize
	return []shapes.Shape{
		shapes.Make(dtypes.Uint8, part, size, size, 3), shapes.Make(dtypes.Uint8, part, size, size), shapes.Make(dtypes.Int32, part, 2),
		shapes.Make(dtypes.Float32, o.Segmenter.ViT.Depth, 2, part), shapes.Make(dtypes.Float32),
	}
}

// Divided divides crops over devices, and what belongs to each of them.
func (o *objective) Divided() []bool { return []bool{true, true, true, false, false} }

// UpdateShapes are the shapes of Update's inputs.
func (o *objective) UpdateShapes() []shapes.Shape { return []shapes.Shape{shapes.Make(dtypes.Float32)} }

// Graph returns the losses, and updates the variables or accumulates their gradients.
func (o *objective) Graph(scope *model.Scope, inputs []*Node) []*Node {
	labels, keep, rate := inputs[1], inputs[3], inputs[4]
	images := Normalize(inputs[0], inputs[2], o.Mean, o.Std)
	if o.Optimizer.DropPath == 0 {
		keep = nil
	}
	loss, auxiliary := o.Segmenter.loss(scope, images, labels, keep)
	variables := trainable(scope)
	values := make([]*Node, len(variables))
	for i, variable := range variables {
		values[i] = variable.NodeValue(loss)
	}
	gradients := Gradient(Add(loss, MulScalar(auxiliary, heads.AuxiliaryWeight)), values...)
	if o.Training.Parts > 1 {
		optim.Accumulate(scope.At(accumulatedScope), variables, gradients)
	} else {
		o.update(scope, variables, gradients, rate)
	}
	return []*Node{loss, auxiliary}
}

// Update takes the optimizer's step from the accumulated gradients.
func (o *objective) Update(scope *model.Scope, inputs []*Node) []*Node {
	variables, rate := trainable(scope), inputs[0]
	gradients := optim.Accumulated(scope.At(accumulatedScope), rate.Graph(), variables, o.Training.Parts)
	o.update(scope, variables, gradients, rate)
	return []*Node{rate}
}

func (o *objective) update(scope *model.Scope, variables []*model.Variable, gradients []*Node, rate *Node) {
	o.Optimizer.Update(scope.At(optimizerScope), scope.At(backboneScope).Scope(), o.Segmenter.ViT.Depth, variables, gradients, rate)
}

// Inputs returns the crops of part of a step.
func (o *objective) Inputs(ctx context.Context, at train.At) ([]any, error) {
	rate := float32(o.Optimizer.Rate(at.Step, o.Training.Steps))
	if at.Part == o.Training.Parts {
		return []any{rate}, nil
	}
	batch, err := o.load(ctx, at)
	if err != nil {
		return nil, err
	}
	all := o.Shapes()
	random := rand.New(rand.NewPCG(at.Seed, uint64(at.Step)<<16|uint64(at.Part)))
	keep := o.Optimizer.DropPaths(random, o.Segmenter.ViT.Depth, o.part())
	o.batch = []*tensors.Tensor{
		tensors.FromFlatDataAndDimensions(batch.Pixels, all[0].Dimensions...), tensors.FromFlatDataAndDimensions(batch.Labels, all[1].Dimensions...),
		tensors.FromFlatDataAndDimensions(batch.Sizes, all[2].Dimensions...),
	}
	return []any{o.batch[0], o.batch[1], o.batch[2], tensors.FromFlatDataAndDimensions(keep, all[3].Dimensions...), rate}, nil
}

// load returns the crops of part of a step. The loader goes on from the part before, or begins anew where the run has jumped.
func (o *objective) load(ctx context.Context, at train.At) (*SegmentationBatch, error) {
	if o.next == nil || o.at != at {
		o.stop()
		loader := o.of.Loader
		loader.Seed, loader.BatchSize = at.Seed, o.part()
		if loader.Transform.CropSize != o.CropSize {
			return nil, fmt.Errorf("fine-tuning: the loader's crops are of %d pixels, the trainer's of %d", loader.Transform.CropSize, o.CropSize)
		}
		o.next, o.close = iter.Pull2(loader.Batches(context.WithoutCancel(ctx), at.Step*o.Training.Parts+at.Part))
	}
	batch, err, ok := o.next()
	if err != nil || !ok {
		o.stop()
		return nil, err
	}
	for _, skipped := range batch.Skipped {
		o.of.Skipped(skipped)
	}
	if at.Part++; at.Part == o.Training.Parts {
		at.Step, at.Part = at.Step+1, 0
	}
	o.at = at
	return batch, nil
}

// stop ends the loader.
func (o *objective) stop() {
	if o.next != nil {
		o.close()
		o.next = nil
	}
}

// part is the number of crops in part of a batch.
func (o *objective) part() int { return o.Batch / o.Training.Parts }

// Metrics adds the losses of part of a step and frees its crops.
func (o *objective) Metrics(step *Step, at train.At, outputs []*tensors.Tensor) {
	step.Rate = o.Optimizer.Rate(at.Step, o.Training.Steps)
	if at.Part == o.Training.Parts {
		return
	}
	parts := float64(o.Training.Parts)
	step.Loss += float64(tensors.ToScalar[float32](outputs[0])) / parts
	step.Auxiliary += float64(tensors.ToScalar[float32](outputs[1])) / parts
	for _, tensor := range o.batch {
		tensor.MustFinalizeAll()
	}
}

// Diverged requires finite losses.
func (o *objective) Diverged(step Step) string {
	if sum := step.Loss + step.Auxiliary; math.IsNaN(sum) || math.IsInf(sum, 0) {
		return fmt.Sprintf("it is %g, and %g for the auxiliary head,", step.Loss, step.Auxiliary)
	}
	return ""
}

// Initialize draws all weights from the seed and then takes the pretrained ones.
func (o *objective) Initialize(store *model.Store, seed uint64) error {
	if err := train.Initialize(store, seed); err != nil || o.of.Pretrained == nil {
		return err
	}
	return takeWeights(store, o.Segmenter.ViT, o.of.Pretrained)
}

// takeWeights sets the encoder of a store from the one at the root of another.
func takeWeights(store *model.Store, vit encoder.ViT, pretrained *model.Store) error {
	for _, w := range vit.Weights() {
		from, to := pretrained.GetVariable(model.ScopeSeparator+w.Path), store.GetVariable(model.JoinPath(model.ScopeSeparator, backboneScope, w.Path))
		if from == nil {
			return fmt.Errorf("fine-tuning: the pretrained weights have no %s", w.Path)
		}
		value, err := from.Value()
		if err != nil {
			return err
		}
		if value, err = value.LocalClone(); err != nil {
			return err
		}
		if !value.Shape().Equal(to.Shape()) {
			return fmt.Errorf("fine-tuning: %s is %s in the pretrained weights, and %s in the encoder", w.Path, value.Shape(), to.Shape())
		}
		if err := to.SetValue(value); err != nil {
			return err
		}
	}
	return nil
}
