package finetune

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/semcon/semcon/sccore/datasets"
)

// SegmentationLoader makes training batches of crops. The images are shuffled anew in each epoch, and images left over from the last whole batch of an epoch
// begin the next one. A batch depends only on the settings, the seed and the step: a run resumes from the step alone, and the number of workers changes nothing.
type SegmentationLoader struct {
	Images    *datasets.Segmentation
	Transform SegmentationTransform
	BatchSize int    // Crops per batch.
	Seed      uint64 // Of order and crops.
	Workers   int    // Images read at once; 0 for one per processor.
	Ahead     int    // Batches made while the caller works on one; 0 for one.

	// Broken says what happens if an image or its mask cannot be used: the loader stops with an error, or takes the next image of the set.
	Broken datasets.Broken
}

// SegmentationBatch is the input of one training step.
type SegmentationBatch struct {
	Step   int
	Pixels []uint8 // [BatchSize, CropSize, CropSize, 3], as in [SegmentationCrop].
	Labels []uint8 // [BatchSize, CropSize, CropSize].
	Sizes  []int32 // [BatchSize, 2], height and width of what the image fills.
	Images []int   // [BatchSize], the index of each image.

	Skipped []datasets.Skipped // Images that could not be used and were replaced.
}

// maxBroken is the number of broken images in a row that is an error even if broken images are skipped: the disk may be failing.
const maxBroken = 100

// Check returns an error that names the first invalid setting.
func (l SegmentationLoader) Check() error {
	switch {
	case l.Images == nil || l.Images.Len() < 1:
		return errors.New("no images to train on")
	case l.BatchSize < 1:
		return fmt.Errorf("batch size %d, want at least 1", l.BatchSize)
	case l.Workers < 0:
		return fmt.Errorf("%d workers, want at least 0", l.Workers)
	case l.Ahead < 0:
		return fmt.Errorf("%d batches ahead, want at least 0", l.Ahead)
	}
	return l.Transform.Check()
}

// Batches yields the batches from the given step on, without end. After an error it ends. The error is that of ctx, or one line that names a file.
func (l SegmentationLoader) Batches(ctx context.Context, from int) iter.Seq2[*SegmentationBatch, error] {
	if err := l.Check(); err != nil {
		return func(yield func(*SegmentationBatch, error) bool) { yield(nil, err) }
	}
	var order shuffle
	return ordered(ctx, from, l.Workers, l.Ahead, func(step int) job[*SegmentationBatch] {
		images := make([]sample, l.BatchSize)
		for i := range images {
			images[i] = order.at(l.Seed, step*l.BatchSize+i, l.Images.Len())
		}
		return func(ctx context.Context, places chan struct{}) (*SegmentationBatch, error) {
			return l.read(ctx, step, images, places)
		}
	})
}

// sample is an image in an epoch.
type sample struct{ epoch, image int }

// shuffle is the order of the images in an epoch.
type shuffle struct {
	epoch int
	order []int
}

// at returns the sample at a position, counted from the start of the first epoch, in a set of n images.
func (s *shuffle) at(seed uint64, position, n int) sample {
	if epoch := position / n; s.order == nil || s.epoch != epoch {
		s.epoch, s.order = epoch, rand.New(rand.NewPCG(seed, uint64(epoch))).Perm(n)
	}
	return sample{s.epoch, s.order[position%n]}
}

// read reads the batch of one step.
func (l SegmentationLoader) read(ctx context.Context, step int, samples []sample, places chan struct{}) (*SegmentationBatch, error) {
	area := l.Transform.CropSize * l.Transform.CropSize
	b := &SegmentationBatch{
		Step: step, Pixels: make([]uint8, 3*area*len(samples)), Labels: make([]uint8, area*len(samples)), Sizes: make([]int32, 2*len(samples)), Images: make([]int, len(samples)),
	}
	skipped := make([][]datasets.Skipped, len(samples))
	err := eachImage(ctx, len(samples), places, func(i int) (err error) {
		var a *datasets.SegmentedImage
		if a, b.Images[i], skipped[i], err = l.image(ctx, samples[i].image); err != nil {
			return err
		}
		size := l.Transform.write(b.Pixels[3*area*i:][:3*area], b.Labels[area*i:][:area], a, l.Seed, samples[i].epoch, b.Images[i])
		b.Sizes[2*i], b.Sizes[2*i+1] = int32(size.Height), int32(size.Width)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range skipped {
		b.Skipped = append(b.Skipped, skipped[i]...)
	}
	return b, nil
}

// image reads an image, or the next one that can be used.
func (l SegmentationLoader) image(ctx context.Context, i int) (a *datasets.SegmentedImage, index int, skipped []datasets.Skipped, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, 0, nil, err
		}
		if a, err = l.Images.Read(i); err == nil {
			err = check(a, len(l.Images.Classes))
		}
		if err == nil || l.Broken == datasets.FailOnBroken {
			return a, i, skipped, err
		}
		if len(skipped) == maxBroken {
			return nil, 0, nil, fmt.Errorf("%d images in a row cannot be used, the last: %w", maxBroken, err)
		}
		skipped = append(skipped, datasets.Skipped{File: fmt.Sprintf("image %d", i), Reason: err.Error()})
		i = (i + 1) % l.Images.Len()
	}
}
