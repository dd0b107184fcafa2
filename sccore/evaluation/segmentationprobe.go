package evaluation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/metrics"
)

// SegmentationProbe is the linear segmentation of the paper's first table ("Main Results on ImageNet & COCO", "Optimization strategy"): a 1×1 layer
// on fixed patch features of random crops, one rate, few passes over the images; judged at the full size of the annotation.
type SegmentationProbe struct {
	Train   int     `json:"train"`    // Side of training crops in pixels.
	Test    int     `json:"test"`     // Side in pixels that test images are resized to.
	MinArea float64 `json:"min_area"` // Of a crop, as a share of its image's.
	Epochs  int     `json:"epochs"`   // Crops of each image, a new one in each pass.
	Batch   int     `json:"batch"`
	Rate    float64 `json:"rate"` // Of Adam, constant.
}

// DefaultSegmentationProbe is the paper's; the share of a crop, which it does not name, is ours.
func DefaultSegmentationProbe() SegmentationProbe {
	return SegmentationProbe{Train: 336, Test: 448, MinArea: 0.25, Epochs: 1, Batch: 256, Rate: 3e-3}
}

// Check returns an error that names the setting out of range.
func (p SegmentationProbe) Check() error {
	if p.Test < 1 || p.Epochs < 1 {
		return fmt.Errorf("segmentation: test %d and epochs %d, want at least 1", p.Test, p.Epochs)
	}
	if err := (Crop{p.Train, p.MinArea}).Check(); err != nil {
		return err
	}
	return p.training(1, 1, 2, 1).Check()
}

func (p SegmentationProbe) training(dim, grid, classes, steps int) SegmentationTraining {
	return SegmentationTraining{
		Head: heads.Segmentation{Kind: heads.Linear, Classes: classes}, Dim: dim, Grid: grid, Batch: p.Batch, Steps: steps,
		Rates: []float64{p.Rate}, FinalRate: p.Rate,
	}
}

// Measure trains the layer on one set and judges it on the other, which has the same classes. The seed draws the layer, the order and the crops.
// Images beyond the last whole batch are not seen in their pass but in the next, the very last ones not at all; a set smaller than a batch makes
// one. Memory grows with the sets by no more than their order. Sides that are not made of the encoder's patches, images that cannot be read, a loss that is no
// number and test images without an annotated pixel are errors.
func (p SegmentationProbe) Measure(ctx context.Context, b compute.Backend, frozen *Frozen, train, test *datasets.Segmentation, seed uint64) (result metrics.Segmentation, err error) {
	if err := p.Check(); err != nil {
		return result, err
	}
	patch := frozen.ViT.PatchSize
	if p.Train%patch != 0 || p.Test%patch != 0 {
		return result, fmt.Errorf("segmentation: train %d and test %d are not both made of patches of %d, which %s sees", p.Train, p.Test, patch, frozen.ViT.Name)
	}
	n := train.Len()
	steps := max(1, n*p.Epochs/p.Batch)
	trainer, err := NewSegmentationTrainer(b, p.training(frozen.ViT.Dim, p.Train/patch, len(train.Classes), steps))
	if err != nil {
		return result, err
	}
	defer trainer.Close()
	if err := trainer.Begin(seed); err != nil {
		return result, err
	}
	fixed := FixedFeatures{Encoder: frozen, Images: train, Crop: Crop{p.Train, p.MinArea}, Seed: seed, Test: p.Test}
	var samples []Sample
	for pass := 0; len(samples) < steps*p.Batch; pass++ {
		for _, image := range rand.New(rand.NewPCG(seed, uint64(pass))).Perm(n) {
			samples = append(samples, Sample{image, pass})
		}
	}
	next, stop := iter.Pull2(fixed.Crops(ctx, samples[:steps*p.Batch])) // One stream, so that the encoder's batches are full.
	defer stop()
	trainer.Crops = func(context.Context, int) iter.Seq2[Patches, error] { // Asked for one step after the other.
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
	judged, err := trainer.Judge(test, which, p.Test/patch, fixed.Whole(ctx, which))
	if err != nil {
		return result, err
	}
	return judged[0], nil
}

// errNotAnnotated says that there is nothing to judge by.
var errNotAnnotated = errors.New("segmentation: no pixel of the images is annotated")
