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
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// DetectionTraining is the configuration of a fine-tuning for object detection.
type DetectionTraining struct {
	Detector  Detector
	Optimizer Optimizer
	Transform DetectionTransform
	Objects   int // Places for objects an image; further ones are left out.
	MaskSize  int // Side of their masks, which cover the boxes.
	Batch     int // Images in a step.
	// Parts is the number of equal parts that a batch is computed in, one after the other. The images of a part share their canvas and their batch
	// statistics.
	Parts int
	Steps int

	Mean, Std [3]float64 // Of red, green and blue in [0, 1], as the encoder expects; see [datasets.Preprocessing].
}

// Check returns an error that names the first setting that is out of range.
func (t DetectionTraining) Check() error {
	if err := cmp.Or(t.Detector.Check(), t.Optimizer.Check(), t.Transform.Check()); err != nil {
		return err
	}
	if err := cmp.Or(
		settings.Between("objects", t.Objects, 1, 1<<10), settings.Between("mask_size", t.MaskSize, 3, 1<<10), settings.Between("batch", t.Batch, 1, 1<<12),
		settings.Between("parts", t.Parts, 1, t.Batch), settings.Between("steps", t.Steps, 1, math.MaxInt32),
	); err != nil {
		return err
	}
	if t.Batch%t.Parts != 0 {
		return fmt.Errorf("batch %d is not a multiple of parts %d", t.Batch, t.Parts)
	}
	canvas, part, d := t.canvas(), t.Batch/t.Parts, t.Detector
	patches := canvas.Height / d.ViT.PatchSize * (canvas.Width / d.ViT.PatchSize)
	if patches < 16 {
		return fmt.Errorf("long %d: a canvas of %d×%d pixels has fewer than 16 patches", t.Transform.Long, canvas.Width, canvas.Height)
	}
	proposals := max(d.TrainProposals, d.TestProposals)
	return cmp.Or(
		settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("attention of %d images of long %d", part, t.Transform.Long), 4, part, d.ViT.NumHeads, patches, patches),
		settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("maps of channels %d of %d images", d.Channels, part), 4, part, 16*patches, 9*d.Channels),
		settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("overlaps of proposals %d of %d images", proposals, part), 4, part, proposals, proposals),
		settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("overlaps of candidates %d of %d images", d.Candidates, part), 4, part, d.Candidates, d.Candidates),
		settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("features of box_samples %d of %d images", d.BoxSamples, part), 4, part, d.BoxSamples, 49*16, d.Channels),
		settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("masks of test detections %d", d.Detections), 4, d.Detections, 28*28, max(9*d.Channels, d.Classes)),
		settings.Fit(settings.MaxBytes, fmt.Sprintf("masks of mask_size %d of objects %d", t.MaskSize, t.Objects), part, t.Objects, t.MaskSize, t.MaskSize),
		settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("hidden %d", d.Hidden), 4, 49*d.Channels, d.Hidden),
	)
}

// canvas is the canvas of images that lie across.
func (t DetectionTraining) canvas() datasets.Size {
	return t.Transform.scale().canvasFor(datasets.Size{Height: 1, Width: 2}, t.Detector.divisor())
}

// FLOPs is [Detector.FLOPs] of a canvas.
func (t DetectionTraining) FLOPs() float64 {
	canvas := t.canvas()
	return t.Detector.FLOPs(canvas.Height, canvas.Width)
}

// DetectionStep is what a training step reports: the losses of its images before the update, as they enter the sum, and the learning rate of the head.
// Loss is the sum; Proposals is that of the region proposal network, the others are sums over the stages.
type DetectionStep struct{ Loss, Proposals, Classes, Boxes, Masks, Rate float64 }

// DetectionTrainer fine-tunes a [Detector] with all its weights. It serves any number of runs. The step is compiled once for images that lie across, and once
// more for upright ones where those come.
type DetectionTrainer struct {
	*train.Trainer[DetectionStep]
	// Images are what the run trains on.
	Images *datasets.ObjectImages
	// Pretrained holds the encoder's weights, at its root, that a run begins with. Nil starts from random ones.
	Pretrained *model.Store

	config    DetectionTraining
	objective *detectionObjective
	detect    *model.Exec
}

// NewDetectionTrainer compiles the step.
func NewDetectionTrainer(b compute.Backend, config DetectionTraining) (*DetectionTrainer, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	t := &DetectionTrainer{config: config}
	var err error
	t.objective = &detectionObjective{DetectionTraining: config, of: t}
	if t.Trainer, err = train.New(b, t.objective); err != nil {
		return nil, err
	}
	t.detect, err = newDetectExec(b, t.Store(), config.Detector, config.Mean, config.Std)
	return t, err
}

// Close frees the device's memory and stops the loader.
func (t *DetectionTrainer) Close() {
	t.objective.stop()
	t.detect.Finalize()
	t.Trainer.Close()
}

// Detect returns what the weights of now find, for [DetectionInference].
func (t *DetectionTrainer) Detect(ctx context.Context, canvases Canvases) (Raw, error) {
	return detectWith(t.detect)(ctx, canvases)
}

// detectionObjective is the loss of a detector on images.
type detectionObjective struct {
	DetectionTraining
	of    *DetectionTrainer
	batch []*tensors.Tensor // What depends on the images of the current part.

	next  func() (*DetectionBatch, error, bool) // The loader's next batch; nil before the first one.
	close func()
	at    train.At // The part of a step that next is for.
}

// Steps is the number of steps of a run.
func (o *detectionObjective) Steps() int { return o.DetectionTraining.Steps }

// Workload counts a step by [DetectionTraining.FLOPs].
func (o *detectionObjective) Workload() train.Workload {
	batch := o.DetectionTraining.Batch
	return train.Workload{Images: batch, FLOPs: 3 * float64(batch) * o.FLOPs(), BFloat16: o.Detector.ViT.ComputeDType.IsHalfPrecision()}
}

// Parts is the number of parts of a batch.
func (o *detectionObjective) Parts() int { return o.DetectionTraining.Parts }

// Shapes are those of images that lie across: pixels, sizes, boxes, labels, masks, frames, random numbers, the factors of stochastic depth, and the learning
// rate.
func (o *detectionObjective) Shapes() []shapes.Shape { return o.shapesOf(o.canvas()) }

func (o *detectionObjective) shapesOf(canvas datasets.Size) []shapes.Shape {
	part, d := o.part(), o.Detector
	return []shapes.Shape{
		shapes.Make(dtypes.Uint8, part, canvas.Height, canvas.Width, 3), shapes.Make(dtypes.Int32, part, 2),
		shapes.Make(dtypes.Float32, part, o.Objects, 4), shapes.Make(dtypes.Int32, part, o.Objects),
		shapes.Make(dtypes.Uint8, part, o.Objects, o.MaskSize, o.MaskSize), shapes.Make(dtypes.Float32, part, o.Objects, 4),
		shapes.Make(dtypes.Float32, part, d.UniformNumbers(canvas.Height/d.ViT.PatchSize, canvas.Width/d.ViT.PatchSize, o.Objects)),
		shapes.Make(dtypes.Float32, d.ViT.Depth, 2, part), shapes.Make(dtypes.Float32),
	}
}

// Divided divides images over devices, and what belongs to each of them.
func (o *detectionObjective) Divided() []bool {
	return []bool{true, true, true, true, true, true, true, false, false}
}

// UpdateShapes are the shapes of Update's inputs.
func (o *detectionObjective) UpdateShapes() []shapes.Shape {
	return []shapes.Shape{shapes.Make(dtypes.Float32)}
}

// Graph returns the losses, and updates the variables or accumulates their gradients.
func (o *detectionObjective) Graph(scope *model.Scope, inputs []*Node) []*Node {
	keep, rate := inputs[7], inputs[8]
	if o.Optimizer.DropPath == 0 {
		keep = nil
	}
	images := Normalize(inputs[0], inputs[1], o.Mean, o.Std)
	objects := detection.Objects{Boxes: inputs[2], Labels: inputs[3], Masks: inputs[4], Frames: inputs[5]}
	losses := o.Detector.losses(scope, images, inputs[1], keep, objects, inputs[6])
	variables := trainable(scope)
	values := make([]*Node, len(variables))
	for i, variable := range variables {
		values[i] = variable.NodeValue(rate)
	}
	gradients := Gradient(losses.Total(), values...)
	if o.DetectionTraining.Parts > 1 {
		optim.Accumulate(scope.At(accumulatedScope), variables, gradients)
	} else {
		o.update(scope, variables, gradients, rate)
	}
	sum := func(of [3]*Node) *Node { return Add(of[0], Add(of[1], of[2])) }
	return []*Node{losses.Total(), Add(losses.AnchorClass, losses.AnchorBox), sum(losses.Class), sum(losses.Box), sum(losses.Mask)}
}

// Update takes the optimizer's step from the accumulated gradients.
func (o *detectionObjective) Update(scope *model.Scope, inputs []*Node) []*Node {
	variables, rate := trainable(scope), inputs[0]
	gradients := optim.Accumulated(scope.At(accumulatedScope), rate.Graph(), variables, o.DetectionTraining.Parts)
	o.update(scope, variables, gradients, rate)
	return []*Node{rate}
}

func (o *detectionObjective) update(scope *model.Scope, variables []*model.Variable, gradients []*Node, rate *Node) {
	o.Optimizer.Update(scope.At(optimizerScope), scope.At(backboneScope).Scope(), o.Detector.ViT.Depth, variables, gradients, rate)
}

// Inputs returns the images of part of a step.
func (o *detectionObjective) Inputs(ctx context.Context, at train.At) ([]any, error) {
	rate := float32(o.Optimizer.Rate(at.Step, o.DetectionTraining.Steps))
	if at.Part == o.DetectionTraining.Parts {
		return []any{rate}, nil
	}
	batch, err := o.load(ctx, at)
	if err != nil {
		return nil, err
	}
	all, place := o.shapesOf(batch.Canvas), uint64(at.Step)<<16|uint64(at.Part)
	keep := o.Optimizer.DropPaths(rand.New(rand.NewPCG(at.Seed, place)), o.Detector.ViT.Depth, o.part())
	o.batch = []*tensors.Tensor{
		tensors.FromFlatDataAndDimensions(batch.Pixels, all[0].Dimensions...), tensors.FromFlatDataAndDimensions(batch.Sizes, all[1].Dimensions...),
		tensors.FromFlatDataAndDimensions(batch.Boxes, all[2].Dimensions...), tensors.FromFlatDataAndDimensions(batch.Labels, all[3].Dimensions...),
		tensors.FromFlatDataAndDimensions(batch.Masks, all[4].Dimensions...), tensors.FromFlatDataAndDimensions(batch.Frames, all[5].Dimensions...),
		detection.Uniform(^at.Seed, place, o.part(), all[6].Dim(1)), tensors.FromFlatDataAndDimensions(keep, all[7].Dimensions...),
	}
	inputs := []any{}
	for _, tensor := range o.batch {
		inputs = append(inputs, tensor)
	}
	return append(inputs, rate), nil
}

// load returns the images of part of a step. The loader goes on from the part before, or begins anew where the run has jumped.
func (o *detectionObjective) load(ctx context.Context, at train.At) (*DetectionBatch, error) {
	if o.next == nil || o.at != at {
		o.stop()
		loader := DetectionLoader{
			Images: o.of.Images, Transform: o.Transform, Divisor: o.Detector.divisor(), Objects: o.Objects, MaskSize: o.MaskSize, BatchSize: o.part(), Seed: at.Seed,
		}
		o.next, o.close = iter.Pull2(loader.Batches(context.WithoutCancel(ctx), at.Step*o.DetectionTraining.Parts+at.Part))
	}
	batch, err, ok := o.next()
	if err != nil || !ok {
		o.stop()
		return nil, err
	}
	if at.Part++; at.Part == o.DetectionTraining.Parts {
		at.Step, at.Part = at.Step+1, 0
	}
	o.at = at
	return batch, nil
}

// stop ends the loader.
func (o *detectionObjective) stop() {
	if o.next != nil {
		o.close()
		o.next = nil
	}
}

// part is the number of images in part of a batch.
func (o *detectionObjective) part() int { return o.Batch / o.DetectionTraining.Parts }

// Metrics adds the losses of part of a step and frees its inputs.
func (o *detectionObjective) Metrics(step *DetectionStep, at train.At, outputs []*tensors.Tensor) {
	step.Rate = o.Optimizer.Rate(at.Step, o.DetectionTraining.Steps)
	if at.Part == o.DetectionTraining.Parts {
		return
	}
	for i, to := range []*float64{&step.Loss, &step.Proposals, &step.Classes, &step.Boxes, &step.Masks} {
		*to += float64(tensors.ToScalar[float32](outputs[i])) / float64(o.DetectionTraining.Parts)
	}
	for _, tensor := range o.batch {
		tensor.MustFinalizeAll()
	}
}

// Diverged requires a finite loss.
func (o *detectionObjective) Diverged(step DetectionStep) string {
	if math.IsNaN(step.Loss) || math.IsInf(step.Loss, 0) {
		return fmt.Sprintf("it is %g", step.Loss)
	}
	return ""
}

// Initialize draws all weights from the seed and then takes the pretrained ones.
func (o *detectionObjective) Initialize(store *model.Store, seed uint64) error {
	if err := train.Initialize(store, seed); err != nil || o.of.Pretrained == nil {
		return err
	}
	return takeWeights(store, o.Detector.ViT, o.of.Pretrained)
}
