package finetune

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// The heads of a [Segmenter].
const (
	UPerNet = "upernet" // [heads.Decoder.UPerNet] with [heads.Decoder.Auxiliary].
	FPN     = "fpn"     // [heads.Decoder.SemanticFPN].
)

// Segmenter is a vision transformer with a segmentation head on a pyramid of its blocks (paper, appendix "Full fine-tuning for semantic segmentation with
// complex models").
type Segmenter struct {
	ViT     encoder.ViT
	Head    string `oneof:"upernet|fpn"`
	Classes int    `range:"[2,255]"`
	// Channels is the width of UPerNet or of the neck of the FPN, whose head is half as wide, but at most 128. The auxiliary head of UPerNet is as wide, but at most 256.
	Channels int `range:"[2,2^14]"`
	// Halved is as in [heads.Pyramid].
	Halved bool `json:",omitzero"`
}

// decoder is the head, of a width. It panics if [settings.Check] refuses the head.
func (s Segmenter) decoder(channels int, train bool) heads.Decoder {
	d := heads.Decoder{Classes: s.Classes, Channels: channels, NeckChannels: s.Channels, Dropout: 0.1, Train: train}
	settings.Require(d)
	return d
}

// auxiliary is the width of UPerNet's auxiliary head, and fpn the width of the FPN's head.
func (s Segmenter) auxiliary() int { return min(256, s.Channels) }
func (s Segmenter) fpn() int       { return min(128, s.Channels/2) }

// logits returns the logits of normalised images, [rows, columns, batch, Classes] with rows = 4·height/PatchSize, or half as many, and the logits of the
// auxiliary head, or nil if there is none. keep holds the factors of stochastic depth, or nil.
func (s Segmenter) logits(scope *model.Scope, images, keep *Node, train bool) (logits, auxiliary *Node) {
	rows, columns := images.Shape().Dim(1)/s.ViT.PatchSize, images.Shape().Dim(2)/s.ViT.PatchSize
	tokens := s.ViT.TokensInTraining(scope.At(backboneScope), images, keep, nil)
	pyramid := heads.DefaultPyramid(s.ViT.Depth)
	pyramid.Halved = s.Halved
	levels := pyramid.Levels(scope, tokens.Blocks, rows, columns, train)
	if s.Head == FPN {
		return s.decoder(s.fpn(), train).SemanticFPN(scope, levels), nil
	}
	if train {
		auxiliary = s.decoder(s.auxiliary(), train).Auxiliary(scope, levels)
	}
	return s.decoder(s.Channels, train).UPerNet(scope, levels), auxiliary
}

// FLOPs counts the floating-point operations of the matrix products and convolutions for one square image of size pixels, forward and with the auxiliary
// head. A product and its sum count as two. A training step takes about three times as many.
func (s Segmenter) FLOPs(size int) float64 {
	patches, dim := float64(size/s.ViT.PatchSize)*float64(size/s.ViT.PatchSize), float64(s.ViT.Dim)
	products := s.ViT.FLOPs(int(patches)) / 2
	convolutions := lo.Ternary(s.Halved, 1., 1+4+1) // The transposed ones of the pyramid, by their inputs.
	products += patches * 4 * dim * dim * convolutions
	if s.Halved {
		patches /= 4
	}

	level := []float64{16 * patches, 4 * patches, patches, patches / 4} // Places of the pyramid's levels.
	all, classes, width := level[0]+level[1]+level[2]+level[3], float64(s.Classes), float64(s.Channels)
	if s.Head == FPN {
		head := float64(s.fpn())
		products += all*dim*width + all*9*width*width                    // Neck.
		products += all*9*width*head + (2*level[1]+level[2])*9*head*head // Scale heads: the first convolution of each, and the others.
		return 2 * (products + level[0]*head*classes)
	}
	auxiliary := float64(s.auxiliary())
	fine := all - level[3]
	products += fine*dim*width + fine*9*width*width + level[3]*9*(dim+4*width)*width // Laterals and their convolutions, and the bottleneck of the pooled features.
	for _, scale := range heads.PoolScales {
		products += float64(scale*scale) * dim * width
	}
	products += level[0] * (9*4*width*width + width*classes)
	return 2 * (products + level[2]*(9*dim*auxiliary+auxiliary*classes))
}

// SegmentationTraining is the configuration of a fine-tuning for semantic segmentation.
type SegmentationTraining struct {
	Training
	Segmenter Segmenter
	Transform SegmentationTransform // Its crops have whole patches.
}

// Rules returns an error if a part of a batch cannot be trained on, or not in memory.
func (t SegmentationTraining) Rules() error {
	v, part, size := t.Segmenter.ViT, t.part(), t.Transform.CropSize
	if t.Segmenter.Head == UPerNet && part < 2 {
		return fmt.Errorf("batch %d in parts %d: UPerNet normalises one bin over the crops of a part, and needs two", t.Batch, t.Parts)
	}
	side := size / v.PatchSize
	return cmp.Or(
		v.CheckSize("crop_size", size),
		settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("attention of %d crops of crop_size %d", part, size), 4, part, v.NumHeads, side*side, side*side),
		settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("maps of %d channels of %d crops of crop_size %d", t.Segmenter.Channels, part, size),
			4, part, 16*side*side, 4*t.Segmenter.Channels),
	)
}

// FLOPs is [Segmenter.FLOPs] of a crop.
func (t SegmentationTraining) FLOPs() float64 { return t.Segmenter.FLOPs(t.Transform.CropSize) }

// SegmentationStep is what a training step reports: the mean losses of its crops before the update, and the learning rate of the head.
type SegmentationStep struct{ Loss, Auxiliary, Rate float64 }

// SegmentationTrainer fine-tunes a [Segmenter] with all its weights. It is compiled once and serves any number of runs.
type SegmentationTrainer struct {
	trainer[SegmentationStep]
	// Images are what the run trains on.
	Images *datasets.Segmentation

	config SegmentationTraining
}

// NewSegmentationTrainer compiles the step.
func NewSegmentationTrainer(b compute.Backend, config SegmentationTraining) (_ *SegmentationTrainer, err error) {
	defer try.Handle(&err)
	try.E(settings.Check(config))
	t := &SegmentationTrainer{config: config}
	return t, t.compile(b, config.Training, config.Segmenter.ViT, config.shapes(), config.FLOPs(), func(m *SegmentationStep) *float64 { return &m.Rate },
		train.Task[SegmentationStep]{Batches: t.batches, Loss: config.loss}, config.Segmenter.predict(config.Mean, config.Std))
}

// shapes are the shapes of a part's crops: pixels, labels and the sizes of what images fill.
func (t SegmentationTraining) shapes() []shapes.Shape {
	part, size := t.part(), t.Transform.CropSize
	return []shapes.Shape{shapes.Make(dtypes.Uint8, part, size, size, 3), shapes.Make(dtypes.Uint8, part, size, size), shapes.Make(dtypes.Int32, part, 2)}
}

// loss is the sum of the losses of the head and, weighted, of the auxiliary head, which is 0 if there is none.
func (t SegmentationTraining) loss(scope *model.Scope, inputs []*Node) (*Node, []train.Report[SegmentationStep]) {
	logits, auxiliaryLogits := t.Segmenter.logits(scope, Normalize(inputs[0], inputs[2], t.Mean, t.Std), t.kept(inputs[3]), true)
	labels := TransposeAllAxes(inputs[1], 1, 2, 0)
	loss := heads.CrossEntropy(logits, labels)
	auxiliary := ZerosLike(loss)
	if auxiliaryLogits != nil {
		auxiliary = heads.CrossEntropy(auxiliaryLogits, labels)
	}
	return Add(loss, MulScalar(auxiliary, heads.AuxiliaryWeight)), []train.Report[SegmentationStep]{
		train.Mean("it", loss, func(m *SegmentationStep) *float64 { return &m.Loss }),
		train.Mean("the loss of the auxiliary head", auxiliary, func(m *SegmentationStep) *float64 { return &m.Auxiliary }),
	}
}

// Batches yields the parts of a run's batches from a number on, without end. The images are shuffled anew in each epoch, and images left over from the last
// whole part of an epoch begin the next one. After an error it ends. The error is that of ctx, or one line that names a file
// or says that there are no images or no parts.
func (t SegmentationTraining) Batches(ctx context.Context, images *datasets.Segmentation, seed uint64, from int) iter.Seq2[*Batch[SegmentationCrop], error] {
	order := datasets.Order{Seed: seed}
	return batches(ctx, t.Training, images.Len(), from, func(number int) (datasets.Size, []Place) {
		return datasets.Size{Height: t.Transform.CropSize, Width: t.Transform.CropSize}, lo.Times(t.part(), func(i int) (at Place) {
			at.Epoch, at.Image = order.At(number*t.part()+i, images.Len())
			return at
		})
	}, func(_ datasets.Size, at Place) (crop SegmentationCrop, err error) {
		defer try.Handle(&err)
		return t.Transform.Apply(try.E1(images.Read(at.Image)), seed, at.Epoch, at.Image), nil
	})
}

// batches makes the crops of a run.
func (t *SegmentationTrainer) batches(ctx context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] {
	c, all := t.config, t.config.shapes()
	return train.Prepared(c.Batches(ctx, t.Images, seed, from), func(b *Batch[SegmentationCrop]) (train.Batch, error) {
		return train.Batch{Inputs: []any{
			stack(all[0], b.Made, func(c SegmentationCrop) []uint8 { return c.Pixels }), stack(all[1], b.Made, func(c SegmentationCrop) []uint8 { return c.Labels }),
			stack(all[2], b.Made, func(c SegmentationCrop) []int32 { return filled(c.Size) }), c.keep(seed, b.Step, c.Segmenter.ViT.Depth),
		}}, nil
	})
}

// Segment returns the logits that the weights of now give to crops, for [SegmentationInference].
func (t *SegmentationTrainer) Segment(ctx context.Context, crops Canvases) (Logits, error) {
	return t.network.segment(ctx, t.config.Segmenter, crops)
}

// predict is the graph of logits, [batch, rows, columns, Classes].
func (s Segmenter) predict(mean, std [3]float64) graph {
	return func(scope *model.Scope, pixels, sizes *Node) []*Node {
		logits, _ := s.logits(scope, Normalize(pixels, sizes, mean, std), nil, false)
		return []*Node{TransposeAllAxes(logits, 2, 0, 1, 3)}
	}
}

// segment returns the logits of crops of whole patches, which the network sees one after the other.
func (n network) segment(ctx context.Context, s Segmenter, crops Canvases) (all Logits, err error) {
	defer try.Handle(&err)
	if patch := s.ViT.PatchSize; crops.Height%patch != 0 || crops.Width%patch != 0 {
		return all, fmt.Errorf("crops of %d×%d pixels cannot be split into patches of %d", crops.Width, crops.Height, patch)
	}
	one := 3 * crops.Height * crops.Width
	for i := range crops.Count {
		try.E(n.call(ctx, canvases(crops.Size, crops.Pixels[i*one:(i+1)*one]), func(outputs []*tensors.Tensor) {
			shape := outputs[0].Shape()
			all.Rows, all.Columns, all.Classes = shape.Dim(1), shape.Dim(2), shape.Dim(3)
			all.Values = append(all.Values, tensors.MustCopyFlatData[float32](outputs[0])...)
		}))
	}
	return all, nil
}

// SegmentationInference says how the classes of an image's pixels are predicted, as by mmsegmentation. The image is resized; a network gives the logits of overlapping
// crops, or of the whole; the logits of a pixel are averaged over the crops that show it, and resized to the image's own size, where the largest is the
// prediction.
type SegmentationInference struct {
	Scale    Scale         `json:"scale"`                               // What images are resized to.
	Mode     InferenceMode `json:"mode" oneof:"slide|whole"`            // What the network sees of an image: slide for overlapping crops, whole for the whole image.
	CropSize int           `json:"crop_size,omitzero" range:"[0,2^14]"` // Height and width of crops in pixels, with mode slide. A shorter image has shorter crops.
	Stride   int           `json:"stride,omitzero" range:"[0,2^14]"`    // Pixels from one crop to the next, at most CropSize, with mode slide. The last crop ends with the image.
	// Divisor rounds the sides of the resized image up to multiples, for networks that see whole patches; 0 for 1.
	Divisor int `json:"divisor,omitzero" range:"[0,2^14]"`

	patch int // What the network sees is rounded up to multiples of it; 0 for 1.
}

// Inference is p for the network, which sees whole patches: images are rounded up to them, and with mode slide the sides that are shorter than a crop. Crops that are
// not made of them are an error.
func (s Segmenter) Inference(p SegmentationInference) (SegmentationInference, error) {
	p.patch = s.ViT.PatchSize
	return p, s.ViT.CheckSize("inference.crop_size", lo.Ternary(p.Mode == Slide, p.CropSize, 0))
}

// InferenceMode says what a network sees of an image.
type InferenceMode string

// The modes.
const (
	Slide InferenceMode = "slide" // Overlapping crops.
	Whole InferenceMode = "whole" // The whole image.
)

// Rules returns an error if crops have no size or no stride.
func (p SegmentationInference) Rules() error {
	switch {
	case p.Mode == Slide && p.CropSize < 1:
		return settings.Between("crop_size", p.CropSize, 1, maxScale)
	case p.Mode == Slide && (p.Stride < 1 || p.Stride > p.CropSize):
		return fmt.Errorf("stride %d is not between 1 and the crop_size %d", p.Stride, p.CropSize)
	}
	return nil
}

// Canvases are images, or crops of one image, on canvases of one size.
type Canvases struct {
	Count         int
	datasets.Size         // Of a canvas.
	Pixels        []uint8 // [Count, Height, Width, 3], RGB.
	Fill          []int32 // [Count, 2], the height and width that an image fills, from the top left corner.
}

// canvases are images that fill canvases of a size.
func canvases(size datasets.Size, pixels []uint8) Canvases {
	count := len(pixels) / (3 * size.Height * size.Width)
	return Canvases{count, size, pixels, slices.Repeat(filled(size), count)}
}

// filled is the height and width that an image fills.
func filled(size datasets.Size) []int32 { return []int32{int32(size.Height), int32(size.Width)} }

// Logits are what a network says of crops.
type Logits struct {
	Rows, Columns, Classes int       // A crop's logits may be fewer than its pixels.
	Values                 []float32 // [Count, Rows, Columns, Classes].
}

// Segment returns the logits of crops, resized bilinearly to the crops' size, as mmsegmentation resizes the logits of its heads (align_corners=false).
type Segment func(ctx context.Context, crops Canvases) (Logits, error)

// Predict returns the class of each pixel of an image, [a.Height, a.Width]; of equal logits the first class wins. The error names the image.
func (p SegmentationInference) Predict(ctx context.Context, a *datasets.SegmentedImage, segment Segment) ([]uint8, error) {
	from := datasets.Size{Height: a.Height, Width: a.Width}
	size := p.Scale.Of(from)
	for _, side := range []*int{&size.Height, &size.Width} {
		if *side = roundUp(*side, max(1, p.Divisor)); p.Mode == Whole || *side < p.CropSize {
			*side = roundUp(*side, max(1, p.patch))
		}
	}
	pixels := make([]uint8, 3*size.Height*size.Width)
	resize(pixels, size.Width, a.Pixels, from, size, image.Rect(0, 0, size.Width, size.Height))

	corners, crop := p.crops(size)
	var crops []uint8
	for _, corner := range corners {
		for y := range crop.Height {
			crops = append(crops, pixels[3*((corner.Y+y)*size.Width+corner.X):][:3*crop.Width]...)
		}
	}
	logits, err := segment(ctx, canvases(crop, crops))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	if err := safetensors.CheckFinite(logits.Values); err != nil {
		return nil, fmt.Errorf("%s: logits: %w", a.Name, err)
	}
	return heads.PredictPixels(logits.stitched(corners, crop, size), size.Height, size.Width, logits.Classes, from.Height, from.Width), nil
}

// crops returns the top left corners of the crops of an image, row by row, and their size.
func (p SegmentationInference) crops(size datasets.Size) (corners []image.Point, crop datasets.Size) {
	if p.Mode == Whole {
		return []image.Point{{}}, size
	}
	starts := func(length int) (all []int) {
		for start := 0; ; start += p.Stride {
			if start+p.CropSize >= length {
				return append(all, max(length-p.CropSize, 0))
			}
			all = append(all, start)
		}
	}
	corners = lo.CrossJoinBy2(starts(size.Height), starts(size.Width), func(y, x int) image.Point { return image.Pt(x, y) })
	return corners, datasets.Size{Height: min(p.CropSize, size.Height), Width: min(p.CropSize, size.Width)}
}

// Evaluate predicts the images of a set and compares them with their labels at the full size of the annotation, as mmsegmentation does. segment is called for
// one image after the other. It is an error if an image cannot be read, or if no pixel of the set is annotated.
func (p SegmentationInference) Evaluate(ctx context.Context, images *datasets.Segmentation, segment Segment) (result metrics.Segmentation, err error) {
	defer try.Handle(&err)
	confusion := metrics.NewConfusion(len(images.Classes))
	var byImage [][][3]int
	for a, err := range datasets.InTurn(ctx, images.Len(), 0, images.Read) {
		try.E(err)
		byImage = append(byImage, try.E1(confusion.AddImage(a.Mask, try.E1(p.Predict(ctx, a, segment)))))
	}
	if result = confusion.Segmentation(); math.IsNaN(result.Accuracy) {
		return result, errors.New("no pixel of the images is annotated")
	}
	result.ByImage = byImage
	return result, nil
}

// stitched resizes the logits of crops to the crops' size and averages them, [size.Height, size.Width, Classes]. corners are the top left corners of crops.
func (l Logits) stitched(corners []image.Point, crop, size datasets.Size) []float32 {
	down, across := layers.BilinearTaps(l.Rows, crop.Height), layers.BilinearTaps(l.Columns, crop.Width)
	all, counts := make([]float32, size.Height*size.Width*l.Classes), make([]float32, size.Height*size.Width)
	line := make([]float32, l.Columns*l.Classes) // A crop's logits at a row of its pixels.
	between := func(low, high, share float32) float32 { return low + float32(share*(high-low)) }
	for i, corner := range corners {
		for y, down := range down {
			low, high := l.Values[(i*l.Rows+down.Low)*len(line):][:len(line)], l.Values[(i*l.Rows+down.High)*len(line):][:len(line)]
			for k := range line {
				line[k] = between(low[k], high[k], float32(down.Share))
			}
			for x, across := range across {
				place := (corner.Y+y)*size.Width + corner.X + x
				low, high := line[across.Low*l.Classes:][:l.Classes], line[across.High*l.Classes:][:l.Classes]
				for class, sum := range all[place*l.Classes:][:l.Classes] {
					all[place*l.Classes+class] = sum + between(low[class], high[class], float32(across.Share))
				}
				counts[place]++
			}
		}
	}
	for i := range all {
		all[i] /= counts[i/l.Classes]
	}
	return all
}
