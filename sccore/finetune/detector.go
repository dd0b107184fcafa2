package finetune

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// Detector is a vision transformer with Cascade Mask R-CNN on the output of its last block (paper, section "Object detection").
//
// The parts of the detector count pixels of an image whose patches have [detection.PatchSize] pixels. With smaller patches, anchors and the limits between
// the levels of the pyramid are smaller in the same measure.
type Detector struct {
	ViT encoder.ViT `json:"vit"`
	detection.Config
}

// Rules returns an error if the pyramid cannot divide the transformer's tokens.
func (d Detector) Rules() error {
	if d.ViT.Dim%4 != 0 {
		return fmt.Errorf("tokens of length %d: the pyramid needs a multiple of 4", d.ViT.Dim)
	}
	return nil
}

// divisor is what sides of a canvas are multiples of: two patches, for the coarsest level.
func (d Detector) divisor() int { return 2 * d.ViT.PatchSize }

// scale is the factor from pixels of images to pixels of the detector.
func (d Detector) scale() float64 { return float64(detection.PatchSize) / float64(d.ViT.PatchSize) }

// features returns the patch features of the last block, not normalised, of normalised images. keep holds the factors of stochastic depth, or nil.
func (d Detector) features(scope *model.Scope, images, keep *Node) *Node {
	batch, rows, columns := images.Shape().Dim(0), images.Shape().Dim(1)/d.ViT.PatchSize, images.Shape().Dim(2)/d.ViT.PatchSize
	blocks := d.ViT.TokensInTraining(scope.At(backboneScope), images, keep, nil).Blocks
	last := blocks[len(blocks)-1]
	patches := SliceAxis(last, 1, AxisRange(last.Shape().Dim(1)-rows*columns))
	return ConvertDType(Reshape(patches, batch, rows, columns, d.ViT.Dim), images.DType())
}

// inDetector converts lengths from pixels of images to pixels of the detector.
func (d Detector) inDetector(lengths, like *Node) *Node {
	return MulScalar(ConvertDType(lengths, like.DType()), d.scale())
}

// FLOPs counts the floating-point operations of the matrix products and convolutions of a training image on a canvas of height × width pixels, forward. A
// product and its sum count as two. A training step takes about three times as many.
func (d Detector) FLOPs(height, width int) float64 {
	patches := float64(height/d.ViT.PatchSize) * float64(width/d.ViT.PatchSize)
	dim, channels, classes := float64(d.ViT.Dim), float64(d.Channels), float64(d.Classes)
	products := d.ViT.FLOPs(int(patches)) / 2

	// The transposed convolutions of the pyramid, and the convolutions of each level.
	products += patches * (4*dim*dim/2 + 4*4*dim/2*dim/4 + 4*dim*dim/2)
	places := 0.0
	for _, level := range []struct{ places, dim float64 }{{16 * patches, dim / 4}, {4 * patches, dim / 2}, {patches, dim}, {patches / 4, dim}} {
		products += level.places * channels * (level.dim + 9*channels)
		places += level.places
	}
	const anchors = 3
	products += (places + patches/16) * channels * (9*channels + anchors*5)

	const stages, boxBins, maskBins = 3, 7 * 7, 14 * 14
	convolution := 9 * channels * channels
	box := boxBins*(float64(d.Convolutions)*convolution+channels*float64(d.Hidden)) + float64(d.Hidden)*(classes+1+4*classes)
	mask := maskBins * (float64(d.Convolutions)*convolution + 4*channels*channels + 4*channels*classes)
	return 2 * (products + stages*float64(d.BoxSamples)*(box+mask/4)) // A quarter of the samples has a mask.
}

// DetectionTraining is the configuration of a fine-tuning for object detection. The images of a part of a batch share their canvas.
type DetectionTraining struct {
	Training
	Detector  Detector
	Transform DetectionTransform
	Objects   int `range:"[1,2^10]"` // Places for objects an image; further ones are left out.
	MaskSize  int `range:"[3,2^10]"` // Side of their masks, which cover the boxes.
}

// Rules returns an error if a part of a batch does not fit in memory.
func (t DetectionTraining) Rules() error {
	canvas, part, d := t.canvas(), t.part(), t.Detector
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

// DetectionStep is what a training step reports: the losses of its images before the update, as they enter the sum, and the learning rate of the head. Loss is
// the sum. Proposals is the loss of the region proposal network; the others are sums over the stages.
type DetectionStep struct{ Loss, Proposals, Classes, Boxes, Masks, Rate float64 }

// DetectionTrainer fine-tunes a [Detector] with all its weights. It serves any number of runs. The step is compiled once for images that lie across, and once
// more for upright ones where those come.
type DetectionTrainer struct {
	trainer[DetectionStep]
	// Images are what the run trains on.
	Images *datasets.ObjectImages

	config DetectionTraining
}

// NewDetectionTrainer compiles the step.
func NewDetectionTrainer(b compute.Backend, config DetectionTraining) (*DetectionTrainer, error) {
	if err := settings.Check(config); err != nil {
		return nil, err
	}
	t := &DetectionTrainer{config: config}
	return t, t.compile(b, config.Training, config.Detector.ViT, config.shapes(config.canvas()), config.FLOPs(), func(m *DetectionStep) *float64 { return &m.Rate },
		train.Task[DetectionStep]{Batches: t.batches, Loss: config.loss}, config.Detector.predict(config.Mean, config.Std))
}

// shapes are the shapes of a part's inputs on a canvas: pixels, sizes, boxes, labels, masks, frames and random numbers.
func (t DetectionTraining) shapes(canvas datasets.Size) []shapes.Shape {
	part, patch := t.part(), t.Detector.ViT.PatchSize
	return []shapes.Shape{
		shapes.Make(dtypes.Uint8, part, canvas.Height, canvas.Width, 3), shapes.Make(dtypes.Int32, part, 2), shapes.Make(dtypes.Float32, part, t.Objects, 4),
		shapes.Make(dtypes.Int32, part, t.Objects), shapes.Make(dtypes.Uint8, part, t.Objects, t.MaskSize, t.MaskSize), shapes.Make(dtypes.Float32, part, t.Objects, 4),
		shapes.Make(dtypes.Float32, part, t.Detector.UniformNumbers(canvas.Height/patch, canvas.Width/patch, t.Objects)),
	}
}

// loss is the sum of the losses of a detector.
func (t DetectionTraining) loss(scope *model.Scope, inputs []*Node) (*Node, []train.Report[DetectionStep]) {
	d, images := t.Detector, Normalize(inputs[0], inputs[1], t.Mean, t.Std)
	objects := detection.Objects{Boxes: d.inDetector(inputs[2], images), Labels: inputs[3], Masks: inputs[4], Frames: d.inDetector(inputs[5], images)}
	losses := d.Losses(scope, d.features(scope, images, t.kept(inputs[7])), d.inDetector(inputs[1], images), objects, inputs[6])
	sum := func(of [3]*Node) *Node { return Add(of[0], Add(of[1], of[2])) }
	total := losses.Total()
	return total, []train.Report[DetectionStep]{
		train.Mean("it", total, func(m *DetectionStep) *float64 { return &m.Loss }),
		train.Mean("the loss of proposals", Add(losses.AnchorClass, losses.AnchorBox), func(m *DetectionStep) *float64 { return &m.Proposals }),
		train.Mean("the loss of classes", sum(losses.Class), func(m *DetectionStep) *float64 { return &m.Classes }),
		train.Mean("the loss of boxes", sum(losses.Box), func(m *DetectionStep) *float64 { return &m.Boxes }),
		train.Mean("the loss of masks", sum(losses.Mask), func(m *DetectionStep) *float64 { return &m.Masks }),
	}
}

// batches makes the images of a run.
func (t *DetectionTrainer) batches(ctx context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] {
	c := t.config
	return train.Prepared(c.Batches(ctx, t.Images, seed, from), func(b *Batch[DetectionImage]) (train.Batch, error) {
		all := c.shapes(b.Canvas)
		return train.Batch{Inputs: []any{
			stack(all[0], b.Made, func(m DetectionImage) []uint8 { return m.Pixels }), stack(all[1], b.Made, func(m DetectionImage) []int32 { return filled(m.Size) }),
			stack(all[2], b.Made, func(m DetectionImage) []float32 { return m.Boxes }), stack(all[3], b.Made, func(m DetectionImage) []int32 { return m.Labels }),
			stack(all[4], b.Made, func(m DetectionImage) []uint8 { return m.Masks }), stack(all[5], b.Made, func(m DetectionImage) []float32 { return m.Frames }),
			detection.Uniform(^seed, c.place(b.Step), c.part(), all[6].Dim(1)), c.keep(seed, b.Step, c.Detector.ViT.Depth),
		}}, nil
	})
}

// Detect returns what the weights of now find, for [DetectionInference].
func (t *DetectionTrainer) Detect(ctx context.Context, canvases Canvases) (Raw, error) {
	return t.network.detect(ctx, canvases)
}

// predict is the graph of detections, in pixels of the canvas.
func (d Detector) predict(mean, std [3]float64) graph {
	return func(scope *model.Scope, pixels, sizes *Node) []*Node {
		images := Normalize(pixels, sizes, mean, std)
		found := d.Detect(scope, d.features(scope, images, nil), d.inDetector(sizes, images))
		outputs := []*Node{DivScalar(found.Boxes, d.scale()), found.Scores, found.Labels, found.Present, found.Masks, found.Entered}
		for _, boxes := range found.Entering {
			outputs = append(outputs, DivScalar(boxes, d.scale()))
		}
		return outputs
	}
}

// detect returns the detections of canvases.
func (n network) detect(ctx context.Context, in Canvases) (raw Raw, err error) {
	err = n.call(ctx, in, func(outputs []*tensors.Tensor) {
		numbers := tensors.MustCopyFlatData[float32]
		raw = Raw{
			Places: outputs[1].Shape().Dim(1), Boxes: numbers(outputs[0]), Scores: numbers(outputs[1]), Labels: tensors.MustCopyFlatData[int32](outputs[2]),
			Present: tensors.MustCopyFlatData[bool](outputs[3]), Masks: numbers(outputs[4]), Entered: tensors.MustCopyFlatData[bool](outputs[5]),
		}
		for i := range raw.Entering {
			raw.Entering[i] = numbers(outputs[6+i])
		}
	})
	return raw, err
}
