package evaluation

import (
	"iter"
	"math"
	"sync"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/metrics"
	"golang.org/x/sync/errgroup"
)

// evaluateBlock is the number of images whose logits are computed at once.
const evaluateBlock = 4

// Evaluate returns how well each head segments images at the full size of their annotation: logits are resized to it bilinearly
// (align_corners=false). features yields the features of the images in order, of grid×grid patches. It is an error if no pixel of the images is
// annotated.
func (t *SegmentationTrainer) Evaluate(images *datasets.Segmentation, which []int, grid int, features iter.Seq2[Patches, error]) ([]metrics.Segmentation, error) {
	confusions := make([]*metrics.Confusion, len(t.config.LearningRates))
	for i := range confusions {
		confusions[i] = metrics.NewConfusion(t.config.Head.Classes)
	}
	var mu sync.Mutex // Sums do not depend on the order.
	err := t.Predict(images, which, grid, features, func(_ int, a *datasets.SegmentedImage, head int, classes []uint8) error {
		mu.Lock()
		defer mu.Unlock()
		return confusions[head].Add(a.Mask, classes)
	})
	if err != nil {
		return nil, err
	}
	var results []metrics.Segmentation
	for _, confusion := range confusions {
		result := confusion.Segmentation()
		if math.IsNaN(result.Accuracy) {
			return nil, errNotAnnotated
		}
		results = append(results, result)
	}
	return results, nil
}

// Predict calls show with what each head predicts for each image, in parallel: the image's place in which, the image, the head and the class of each
// pixel.
func (t *SegmentationTrainer) Predict(images *datasets.Segmentation, which []int, grid int, features iter.Seq2[Patches, error],
	show func(place int, a *datasets.SegmentedImage, head int, classes []uint8) error,
) error {
	var block []float32
	done := 0
	flush := func() error {
		count := len(block) / (grid * grid * t.config.Dim)
		block = append(block, make([]float32, evaluateBlock*grid*grid*t.config.Dim-len(block))...) // Another shape would compile again.
		logits, err := t.Logits(tensors.FromFlatDataAndDimensions(block, evaluateBlock, grid, grid, t.config.Dim))
		if err != nil {
			return err
		}
		flat, side := make([][]float32, len(logits)), logits[0].Shape().Dim(1)
		for head, tensor := range logits {
			flat[head] = tensors.MustCopyFlatData[float32](tensor)
			tensor.MustFinalizeAll()
		}
		var workers errgroup.Group
		for i := range count {
			workers.Go(func() error {
				return panics.Catch(func() error {
					a, err := images.Read(which[done+i])
					if err != nil {
						return err
					}
					one := side * side * t.config.Head.Classes
					for head := range flat {
						classes := heads.PredictPixels(flat[head][i*one:(i+1)*one], side, side, t.config.Head.Classes, a.Height, a.Width)
						if err := show(done+i, a, head, classes); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
		err = workers.Wait()
		done, block = done+count, block[:0]
		return err
	}
	for patches, err := range features {
		if err != nil {
			return err
		}
		if block = append(block, patches.Features...); len(block) == evaluateBlock*grid*grid*t.config.Dim {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if len(block) > 0 {
		return flush()
	}
	return nil
}
