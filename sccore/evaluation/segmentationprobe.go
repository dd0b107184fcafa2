package evaluation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/settings"
)

// SegmentationProbe is the linear segmentation of Tab. main ("Main Results on ImageNet & COCO", "Optimization strategy"): a 1×1 layer
// on frozen patch features of random crops, with one learning rate and few epochs, evaluated at the full size of the annotation.
type SegmentationProbe struct {
	trainAndTest
	CropSize     int     `json:"train" range:"[1,2048]"`  // Height and width of training crops in pixels.
	TestSize     int     `json:"test" range:"[1,2048]"`   // Height and width in pixels that test images are resized to.
	MinScale     float64 `json:"min_area" range:"(0,1]"`  // Least area of a crop, as a share of its image's.
	Epochs       int     `json:"epochs" range:"[1,1000]"` // Each draws a new crop of every image.
	Batch        int     `json:"batch" range:"[1,2^14]"`
	LearningRate float64 `json:"rate" range:"(0,1e4]"` // Adam's, constant.

	Steps             int     `json:"steps,omitzero" range:"[0,2^31)"`     // Training steps, whatever Epochs says; 0 for Epochs.
	FinalLearningRate float64 `json:"final_rate,omitzero" range:"[0,1e4]"` // Of an FCN at the last step, to which it falls along a cosine; 0 for a constant one.
}

// DefaultSegmentationProbe is the paper's. The paper does not give the area of a crop; ours is in MinScale.
func DefaultSegmentationProbe() SegmentationProbe {
	return SegmentationProbe{CropSize: 336, TestSize: 448, MinScale: 0.25, Epochs: 1, Batch: 256, LearningRate: 3e-3}
}

// Rules returns an error for a batch that does not fit in memory: its features, of the smallest patches and the longest features.
func (p SegmentationProbe) Rules() error {
	return settings.Fit(settings.MaxBytes, fmt.Sprintf("batch %d of crops of train %d", p.Batch, p.CropSize), p.Batch, p.CropSize/8, p.CropSize/8, 768, 4)
}

// Protocol describes the evaluation in one line.
func (p SegmentationProbe) Protocol() string { return p.protocol("linear 1×1 head") }

func (p SegmentationProbe) protocol(head string) string {
	amount, rate := fmt.Sprintf("%d of each training image in", p.Epochs), fmt.Sprintf("%g", p.LearningRate)
	if p.Steps > 0 {
		amount = fmt.Sprintf("%d", p.Steps)
	}
	if p.FinalLearningRate > 0 {
		rate += fmt.Sprintf(" to %g", p.FinalLearningRate)
	}
	return fmt.Sprintf("%s on fixed patch features; crops of %d px of %g to 1 of an image's area, mirrored half of the time, %s "+
		"batches of %d, Adam at rate %s; test images resized to %d×%d px, logits resized bilinearly to the annotation's size, ignored pixels (255) left out",
		head, p.CropSize, p.MinScale, amount, p.Batch, rate, p.TestSize, p.TestSize)
}

// Measure measures mIoU and pixel accuracy on the test images.
func (p SegmentationProbe) Measure(ctx context.Context, e *Encoder, d Data) (Result, error) {
	return segmentationResult(p.Evaluate(ctx, e, d))
}

// segmentationResult is the result of a segmentation of test images.
func segmentationResult(s metrics.Segmentation, err error) (Result, error) {
	return Result{Numbers: segmentationNumbers("", s), Report: segmentationReport(s), Compared: &s}, err
}

// segmentationNumbers are the numbers of a segmentation. A name tells it from others.
func segmentationNumbers(name string, s metrics.Segmentation) []Number {
	return []Number{{Name: "miou" + name, Metric: "mIoU", Unit: "%", Value: s.MIoU}, {Name: "accuracy" + name, Metric: "pixel accuracy", Unit: "%", Value: s.Accuracy}}
}

// segmentationReport is a segmentation with a line for people.
type segmentationReport metrics.Segmentation

func (s segmentationReport) String() string {
	return fmt.Sprintf("mIoU %6.2f %%, pixel accuracy %6.2f %%", s.MIoU, s.Accuracy)
}

// FCNProbe is a [SegmentationProbe] with an FCN in place of the linear layer.
type FCNProbe struct {
	SegmentationProbe
	Width int `json:"width" range:"[1,4096]"` // Channels, which the paper does not give.
}

// Protocol describes the evaluation in one line.
func (p FCNProbe) Protocol() string { return p.protocol(fmt.Sprintf("FCN of width %d", p.Width)) }

// Measure measures mIoU and pixel accuracy on the test images.
func (p FCNProbe) Measure(ctx context.Context, e *Encoder, d Data) (Result, error) {
	return segmentationResult(p.evaluate(ctx, e, d, heads.Segmentation{Kind: heads.FCN, Width: p.Width}))
}

// Evaluate trains the layer on one set and evaluates it on the other, which has the same classes. The seed draws the layer, the order and the crops.
// Images left over from the last whole batch of an epoch are used at the beginning of the next one, and those left at the very end are not used; a
// set smaller than a batch is one batch. Memory grows with the sets only by their order. It is an error if a size is not a multiple of the encoder's
// patch size, if an image cannot be read, if the loss is not finite, or if no pixel of the test images is annotated.
func (p SegmentationProbe) Evaluate(ctx context.Context, e *Encoder, d Data) (result metrics.Segmentation, err error) {
	return p.evaluate(ctx, e, d, heads.Segmentation{Kind: heads.Linear})
}

func (p SegmentationProbe) evaluate(ctx context.Context, e *Encoder, d Data, head heads.Segmentation) (result metrics.Segmentation, err error) {
	train, test, seed, patch := d.Train, d.Test, e.Seed, e.ViT.PatchSize
	if p.CropSize%patch != 0 || p.TestSize%patch != 0 {
		return result, fmt.Errorf("segmentation: train %d and test %d are not both multiples of the patch size %d of %s", p.CropSize, p.TestSize, patch, e.ViT.Name)
	}
	n := train.Len()
	steps := cmp.Or(p.Steps, max(1, n*p.Epochs/p.Batch))
	head.Classes = len(train.Classes)
	trainer, err := NewSegmentationTrainer(e.backend, SegmentationConfig{
		Head: head, Dim: e.ViT.Dim, Grid: p.CropSize / patch, Batch: p.Batch, Steps: steps, LearningRates: []float64{p.LearningRate}, FinalLearningRate: cmp.Or(p.FinalLearningRate, p.LearningRate),
	})
	if err != nil {
		return result, err
	}
	defer trainer.Close()
	if err := trainer.Begin(seed); err != nil {
		return result, err
	}
	trainer.Frozen = FrozenFeatures{Extractor: e.FeatureExtractor, Images: train, Crop: RandomResizedCrop{p.CropSize, p.MinScale}, Seed: seed, TestSize: p.TestSize}
	var samples []Sample
	for pass := 0; len(samples) < steps*p.Batch; pass++ {
		samples = append(samples, samplesOf(rand.New(rand.NewPCG(seed, uint64(pass))).Perm(n), pass)...)
	}
	next, stop := iter.Pull2(trainer.Frozen.Crops(ctx, samples[:steps*p.Batch])) // One stream, so that the encoder's batches are full.
	defer stop()
	trainer.Crops = func(context.Context, int) iter.Seq2[Patches, error] { // Called for one step after the other.
		return func(yield func(Patches, error) bool) {
			for range p.Batch {
				if crop, err, there := next(); !there || !yield(crop, err) {
					return
				}
			}
		}
	}
	for range steps {
		if _, err := trainer.Step(ctx); err != nil {
			return result, err
		}
	}
	which := datasets.Spread(test.Len(), 0)
	trainer.Frozen.Images = test
	judged, err := trainer.Evaluate(which, trainer.Frozen.Whole(ctx, which))
	if err != nil {
		return result, err
	}
	return judged[0], nil
}

// errNotAnnotated says that there are no pixels to evaluate on.
var errNotAnnotated = errors.New("segmentation: no pixel of the images is annotated")
