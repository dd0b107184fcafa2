package finetune

import (
	"context"
	"errors"
	"math"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/metrics"
)

// Evaluate predicts the images of a set and compares them with their labels at the full size of the annotation, as mmsegmentation does. It reads the next image
// while segment works, which is called for one image after the other. It is an error if an image cannot be read, or if no pixel of the set is annotated.
func (p Inference) Evaluate(ctx context.Context, images *datasets.Segmentation, segment Segment) (metrics.Segmentation, error) {
	confusion := metrics.NewConfusion(len(images.Classes))
	type read struct {
		a   *datasets.SegmentedImage
		err error
	}
	ctx, stop := context.WithCancel(ctx)
	next, done := make(chan read), make(chan struct{})
	defer func() { stop(); <-done }()
	go func() {
		defer close(done)
		for i := range images.Len() {
			a, err := images.Read(i)
			if err == nil {
				err = check(a, len(images.Classes))
			}
			select {
			case next <- read{a, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	for range images.Len() {
		var r read
		select {
		case r = <-next:
		case <-ctx.Done():
			return metrics.Segmentation{}, ctx.Err()
		}
		if r.err != nil {
			return metrics.Segmentation{}, r.err
		}
		classes, err := p.Predict(ctx, r.a, segment)
		if err == nil {
			err = confusion.Add(r.a.Mask, classes)
		}
		if err != nil {
			return metrics.Segmentation{}, err
		}
	}
	result := confusion.Segmentation()
	if math.IsNaN(result.Accuracy) {
		return result, errors.New("no pixel of the images is annotated")
	}
	return result, nil
}
