package evaluation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/settings"
)

// SegmentationProbe is the linear segmentation of Tab. main ("Main Results on ImageNet & COCO", "Optimization strategy"): a 1×1 layer
// on frozen patch features of random crops, with one learning rate and few epochs, evaluated at the full size of the annotation.
type SegmentationProbe struct {
	CropSize     int     `json:"train"`    // Height and width of training crops in pixels.
	TestSize     int     `json:"test"`     // Height and width in pixels that test images are resized to.
	MinScale     float64 `json:"min_area"` // Least area of a crop, as a share of its image's.
	Epochs       int     `json:"epochs"`   // Each draws a new crop of every image.
	Batch        int     `json:"batch"`
	LearningRate float64 `json:"rate"` // Adam's, constant.
}

// DefaultSegmentationProbe is the paper's. The paper does not give the area of a crop; ours is in MinScale.
func DefaultSegmentationProbe() SegmentationProbe {
	return SegmentationProbe{CropSize: 336, TestSize: 448, MinScale: 0.25, Epochs: 1, Batch: 256, LearningRate: 3e-3}
}

// Check returns an error that names the setting that is out of range.
func (p SegmentationProbe) Check() error {
	if err := cmp.Or(settings.Between("test", p.TestSize, 1, settings.MaxImageSize), settings.Between("epochs", p.Epochs, 1, 1000)); err != nil {
		return fmt.Errorf("segmentation: %w", err)
	}
	if err := (RandomResizedCrop{p.CropSize, p.MinScale}).Check(); err != nil {
		return err
	}
	// The features of a batch, of the smallest patches and the longest features.
	if err := settings.Fit(settings.MaxBytes, fmt.Sprintf("segmentation: batch %d of crops of train %d", p.Batch, p.CropSize), p.Batch, p.CropSize/8, p.CropSize/8, 768, 4); err != nil {
		return err
	}
	return p.training(1, 1, 2, 1).Check()
}

func (p SegmentationProbe) training(dim, grid, classes, steps int) SegmentationConfig {
	return SegmentationConfig{
		Head: heads.Segmentation{Kind: heads.Linear, Classes: classes}, Dim: dim, Grid: grid, Batch: p.Batch, Steps: steps,
		LearningRates: []float64{p.LearningRate}, FinalLearningRate: p.LearningRate,
	}
}

// Evaluate trains the layer on one set and evaluates it on the other, which has the same classes. The seed draws the layer, the order and the crops.
// Images left over from the last whole batch of an epoch are used at the beginning of the next one, and those left at the very end are not used; a
// set smaller than a batch is one batch. Memory grows with the sets only by their order. It is an error if a size is not a multiple of the encoder's
// patch size, if an image cannot be read, if the loss is not finite, or if no pixel of the test images is annotated.
func (p SegmentationProbe) Evaluate(ctx context.Context, b compute.Backend, extractor *FeatureExtractor, train, test *datasets.Segmentation, seed uint64) (result metrics.Segmentation, err error) {
	if err := p.Check(); err != nil {
		return result, err
	}
	patch := extractor.ViT.PatchSize
	if p.CropSize%patch != 0 || p.TestSize%patch != 0 {
		return result, fmt.Errorf("segmentation: train %d and test %d are not both multiples of the patch size %d of %s", p.CropSize, p.TestSize, patch, extractor.ViT.Name)
	}
	n := train.Len()
	steps := max(1, n*p.Epochs/p.Batch)
	trainer, err := NewSegmentationTrainer(b, p.training(extractor.ViT.Dim, p.CropSize/patch, len(train.Classes), steps))
	if err != nil {
		return result, err
	}
	defer trainer.Close()
	if err := trainer.Begin(seed); err != nil {
		return result, err
	}
	fixed := FrozenFeatures{Extractor: extractor, Images: train, Crop: RandomResizedCrop{p.CropSize, p.MinScale}, Seed: seed, TestSize: p.TestSize}
	var samples []Sample
	for pass := 0; len(samples) < steps*p.Batch; pass++ {
		for _, image := range rand.New(rand.NewPCG(seed, uint64(pass))).Perm(n) {
			samples = append(samples, Sample{image, pass})
		}
	}
	next, stop := iter.Pull2(fixed.Crops(ctx, samples[:steps*p.Batch])) // One stream, so that the encoder's batches are full.
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
	which := make([]int, test.Len())
	for i := range which {
		which[i] = i
	}
	fixed.Images = test
	judged, err := trainer.Evaluate(test, which, p.TestSize/patch, fixed.Whole(ctx, which))
	if err != nil {
		return result, err
	}
	return judged[0], nil
}

// errNotAnnotated says that there are no pixels to evaluate on.
var errNotAnnotated = errors.New("segmentation: no pixel of the images is annotated")
