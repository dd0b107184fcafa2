package finetune

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"iter"
	"math"
	"slices"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/rle"
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
func NewDetectionTrainer(b compute.Backend, config DetectionTraining) (_ *DetectionTrainer, err error) {
	defer try.Handle(&err)
	try.E(settings.Check(config))
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
		return append(outputs, lo.Map(found.Entering[:], func(boxes *Node, _ int) *Node { return DivScalar(boxes, d.scale()) })...)
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

// DetectionInference says how objects are found in images: an image is resized to a scale and put on the canvas that training images have; a detector finds
// boxes with scores, classes and masks; boxes are brought to the image's own size, where the masks are pasted into them.
type DetectionInference struct {
	Scale   Scale `json:"scale"`                    // What images are resized to.
	Divisor int   `json:"divisor" range:"[1,2^14]"` // Of the sides of the canvas in pixels, as the detector needs it.
}

// Raw is what a detector finds on canvases, the best first, with places left over.
type Raw struct {
	Places  int // For detections on a canvas.
	Boxes   []float32
	Scores  []float32
	Labels  []int32
	Present []bool    // [Count, Places]; false for a place that is left over.
	Masks   []float32 // [Count, Places, detection.MaskSize, detection.MaskSize].

	// Entering are the boxes that enter each stage, the best proposals first, as in [detection.Detections]; Entered is false for a place that is left over.
	Entering [3][]float32
	Entered  []bool
}

// Detect finds objects on canvases.
type Detect func(ctx context.Context, canvases Canvases) (Raw, error)

// Found is a detected object.
type Found struct {
	Class int
	Score float64    // Probability of the class, above 0.05.
	Box   [4]float64 // x1, y1, x2, y2 in pixels of the image, within it.
	Mask  rle.Mask   // Of the image's size.
}

// Predict finds the objects in an image, the best first. The error is the error of detect, or one line that names the image.
func (p DetectionInference) Predict(ctx context.Context, a *datasets.SegmentedImage, detect Detect) (_ []Found, err error) {
	defer try.Handle(&err)
	from, canvas := datasets.Size{Height: a.Height, Width: a.Width}, p.canvas(a)
	size := p.Scale.Of(from)
	in := canvases(canvas, make([]uint8, 3*canvas.Height*canvas.Width))
	resize(in.Pixels, canvas.Width, a.Pixels, from, size, image.Rect(0, 0, size.Width, size.Height))
	in.Fill = filled(size)
	raw := try.E1(detect(ctx, in))
	found, err := raw.of(a, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	return found, nil
}

// canvas is the canvas of an image.
func (p DetectionInference) canvas(a *datasets.SegmentedImage) datasets.Size {
	return p.Scale.canvasFor(datasets.Size{Height: a.Height, Width: a.Width}, p.Divisor)
}

// of returns what is found in the image on the first canvas, which it fills to the given size.
func (r Raw) of(a *datasets.SegmentedImage, size datasets.Size) ([]Found, error) {
	var found []Found
	var places []int
	down, across := float64(a.Height)/float64(size.Height), float64(a.Width)/float64(size.Width)
	for place := range r.Places {
		if !r.Present[place] {
			continue
		}
		b, score := r.Boxes[4*place:][:4], float64(r.Scores[place])
		if math.IsNaN(score) {
			return nil, fmt.Errorf("a score is %g", score)
		}
		box := [4]float64{float64(b[0]) * across, float64(b[1]) * down, float64(b[2]) * across, float64(b[3]) * down}
		for k, most := range [4]int{a.Width, a.Height, a.Width, a.Height} {
			if math.IsNaN(box[k]) || math.IsInf(box[k], 0) {
				return nil, fmt.Errorf("a box has the number %g", box[k])
			}
			box[k] = min(max(box[k], 0), float64(most))
		}
		found, places = append(found, Found{Class: int(r.Labels[place]), Score: score, Box: box}), append(places, place)
	}
	const cells = detection.MaskSize * detection.MaskSize
	return found, datasets.EachImage(context.Background(), len(found), 0, func(k int) (err error) {
		box := found[k].Box
		pixels := detection.Paste(r.Masks[places[k]*cells:][:cells], detection.MaskSize,
			[4]float32{float32(box[0]), float32(box[1]), float32(box[2]), float32(box[3])}, a.Height, a.Width)
		found[k].Mask, err = rle.Encode(a.Height, a.Width, pixels)
		return err
	})
}

// Results returns what is found in an image in COCO's terms. categories holds a category for each class.
func Results(found []Found, image int64, categories []datasets.ObjectCategory) []metrics.Detection {
	return lo.Map(found, func(f Found, _ int) metrics.Detection {
		box := [4]float64{f.Box[0], f.Box[1], f.Box[2] - f.Box[0], f.Box[3] - f.Box[1]}
		return metrics.Detection{Image: image, Category: categories[f.Class].ID, Score: f.Score, Box: &box, Mask: &f.Mask}
	})
}

// DetectionResult is the evaluation of a set.
type DetectionResult struct {
	Boxes, Masks metrics.COCOAP
	Detections   []metrics.Detection // In the order of the images.
}

// Evaluate finds the objects in the images of a set and compares them with the annotations, as pycocotools does. The area of a detected mask is its own, not
// the area of its box. It is an error if an image cannot be read. Classes of the detector are the categories of the set.
func (p DetectionInference) Evaluate(ctx context.Context, images *datasets.ObjectImages, detect Detect) (result DetectionResult, err error) {
	defer try.Handle(&err)
	i := 0
	for a, err := range datasets.InTurn(ctx, images.Len(), 0, images.Read) {
		try.E(err)
		result.Detections = append(result.Detections, Results(try.E1(p.Predict(ctx, a, detect)), images.Image(i).ID, images.Truth.Categories)...)
		i++
	}
	result.Boxes = try.E1(metrics.EvaluateCOCO(images.Truth, result.Detections, metrics.Boxes))
	maskOnly := slices.Clone(result.Detections) // Their areas are then the areas of the masks, as in mmdetection and detectron2.
	for i := range maskOnly {
		maskOnly[i].Box = nil
	}
	result.Masks, err = metrics.EvaluateCOCO(images.Truth, maskOnly, metrics.Masks)
	return result, err
}
