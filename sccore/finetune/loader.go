package finetune

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/rle"
)

// SegmentationLoader makes training batches of crops. The images are shuffled anew in each epoch, and images left over from the last whole batch of an epoch
// begin the next one. A batch depends only on the settings, the seed and the step: a run resumes from the step alone, and the number of workers changes nothing.
type SegmentationLoader struct {
	Images    *datasets.Segmentation
	Transform SegmentationTransform
	BatchSize int    // Crops per batch.
	Seed      uint64 // Of order and crops.
	Workers   int    // Images read at once; 0 for one per processor.

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
	}
	return l.Transform.Check()
}

// Batches yields the batches from the given step on, without end. After an error it ends. The error is that of ctx, or one line that names a file.
func (l SegmentationLoader) Batches(ctx context.Context, from int) iter.Seq2[*SegmentationBatch, error] {
	if err := l.Check(); err != nil {
		return func(yield func(*SegmentationBatch, error) bool) { yield(nil, err) }
	}
	var order shuffle
	return batches(ctx, from, func(step int) (*SegmentationBatch, error) {
		images := make([]sample, l.BatchSize)
		for i := range images {
			images[i] = order.at(l.Seed, step*l.BatchSize+i, l.Images.Len())
		}
		return l.read(ctx, step, images)
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
func (l SegmentationLoader) read(ctx context.Context, step int, samples []sample) (*SegmentationBatch, error) {
	area := l.Transform.CropSize * l.Transform.CropSize
	b := &SegmentationBatch{
		Step: step, Pixels: make([]uint8, 3*area*len(samples)), Labels: make([]uint8, area*len(samples)), Sizes: make([]int32, 2*len(samples)), Images: make([]int, len(samples)),
	}
	skipped := make([][]datasets.Skipped, len(samples))
	err := datasets.EachImage(ctx, len(samples), l.Workers, func(i int) (err error) {
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

// DetectionLoader makes training batches of images with objects. The images of a batch share their canvas, which lies across or upright as they do. They are
// shuffled anew in each epoch, those of each canvas on their own, and then the batches; the last batch of a canvas is filled up with its first images.
// A batch depends only on the settings, the seed and the step: a run resumes from the step alone, and the number of workers changes nothing.
//
// Crowds are left out, and so are objects that lie outside of their image or have a side of less than a pixel, as by mmdetection.
type DetectionLoader struct {
	Images    *datasets.ObjectImages
	Transform DetectionTransform
	Divisor   int    // Of the sides of the canvas in pixels.
	Objects   int    // Places for objects an image.
	MaskSize  int    // Side of their masks, at least 3.
	BatchSize int    // Images per batch.
	Seed      uint64 // Of order and transforms.
	Workers   int    // Images read at once; 0 for one per processor.
}

// DetectionBatch is the input of one training step: [DetectionImage] of BatchSize images, one after the other.
type DetectionBatch struct {
	Step   int
	Canvas datasets.Size
	Pixels []uint8
	Sizes  []int32 // [BatchSize, 2], height and width of what an image fills.
	Boxes  []float32
	Labels []int32
	Masks  []uint8
	Frames []float32
	Images []int // [BatchSize], the index of each image.
}

// Check returns an error that names the first invalid setting.
func (l DetectionLoader) Check() error {
	switch {
	case l.Images == nil || l.Images.Len() < 1:
		return errors.New("no images with objects to train on")
	case l.Divisor < 1:
		return fmt.Errorf("divisor %d, want at least 1", l.Divisor)
	case l.Objects < 1:
		return fmt.Errorf("objects %d, want at least 1", l.Objects)
	case l.MaskSize < 3:
		return fmt.Errorf("mask size %d, want at least 3", l.MaskSize)
	case l.BatchSize < 1:
		return fmt.Errorf("batch size %d, want at least 1", l.BatchSize)
	case l.Workers < 0:
		return fmt.Errorf("%d workers, want at least 0", l.Workers)
	}
	return l.Transform.Check()
}

// Batches yields the batches from the given step on, without end. After an error it ends. The error is that of ctx, or one line that names a file.
func (l DetectionLoader) Batches(ctx context.Context, from int) iter.Seq2[*DetectionBatch, error] {
	if err := l.Check(); err != nil {
		return func(yield func(*DetectionBatch, error) bool) { yield(nil, err) }
	}
	classes := map[int64]int{}
	for class, category := range l.Images.Truth.Categories {
		classes[category.ID] = class
	}
	order := newCanvasOrder(l)
	return batches(ctx, from, func(step int) (*DetectionBatch, error) {
		epoch, images := order.at(l.Seed, step)
		return l.read(ctx, step, epoch, images, classes)
	})
}

// canvasOrder is the order of the batches.
type canvasOrder struct {
	groups [2][]int // The images that lie across, and the others, or all in the first one if both canvases are one.
	batch  int

	epoch   int
	batches [][]int // Of the epoch.
}

func newCanvasOrder(l DetectionLoader) *canvasOrder {
	o := &canvasOrder{batch: l.BatchSize, epoch: -1}
	across := l.canvas(datasets.Size{Height: 1, Width: 2})
	for i := range l.Images.Len() {
		group := 0
		if image := l.Images.Image(i); l.canvas(datasets.Size{Height: image.Height, Width: image.Width}) != across {
			group = 1
		}
		o.groups[group] = append(o.groups[group], i)
	}
	return o
}

// canvas is the canvas of images of a size.
func (l DetectionLoader) canvas(size datasets.Size) datasets.Size {
	return l.Transform.scale().canvasFor(size, l.Divisor)
}

// at returns the images of a batch, counted from the start of the first epoch.
func (o *canvasOrder) at(seed uint64, position int) (epoch int, images []int) {
	count := 0
	for _, group := range o.groups {
		count += (len(group) + o.batch - 1) / o.batch
	}
	if epoch = position / count; epoch != o.epoch {
		random := rand.New(rand.NewPCG(seed, uint64(epoch)))
		o.epoch, o.batches = epoch, nil
		for _, group := range o.groups {
			order := random.Perm(len(group))
			for first := 0; first < len(group); first += o.batch {
				var batch []int
				for i := range o.batch {
					batch = append(batch, group[order[(first+i)%len(group)]])
				}
				o.batches = append(o.batches, batch)
			}
		}
		random.Shuffle(count, func(i, j int) { o.batches[i], o.batches[j] = o.batches[j], o.batches[i] })
	}
	return epoch, o.batches[position%count]
}

// read reads the batch of one step.
func (l DetectionLoader) read(ctx context.Context, step, epoch int, images []int, classes map[int64]int) (*DetectionBatch, error) {
	first := l.Images.Image(images[0])
	b := &DetectionBatch{Step: step, Canvas: l.canvas(datasets.Size{Height: first.Height, Width: first.Width}), Images: images}
	made := make([]DetectionImage, len(images))
	err := datasets.EachImage(ctx, len(images), l.Workers, func(i int) error {
		picture, err := l.Images.Read(images[i])
		if err != nil {
			return err
		}
		objects, err := objectsOf(l.Images, images[i], classes)
		if err != nil {
			return err
		}
		made[i] = l.Transform.Apply(picture, objects, b.Canvas, l.Objects, l.MaskSize, l.Seed, epoch, images[i])
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, m := range made {
		b.Pixels, b.Sizes = append(b.Pixels, m.Pixels...), append(b.Sizes, int32(m.Size.Height), int32(m.Size.Width))
		b.Boxes, b.Labels = append(b.Boxes, m.Boxes...), append(b.Labels, m.Labels...)
		b.Masks, b.Frames = append(b.Masks, m.Masks...), append(b.Frames, m.Frames...)
	}
	return b, nil
}

// objectsOf returns the objects of an image that are trained on. The error names the annotation whose mask cannot be drawn.
func objectsOf(images *datasets.ObjectImages, i int, classes map[int64]int) (objects []Object, err error) {
	image := images.Image(i)
	for _, a := range images.Annotations(i) {
		x1, y1, x2, y2 := a.Box[0], a.Box[1], a.Box[0]+a.Box[2], a.Box[1]+a.Box[3]
		across := min(x2, float64(image.Width)) - max(x1, 0)
		down := min(y2, float64(image.Height)) - max(y1, 0)
		if a.Crowd || a.Area <= 0 || a.Box[2] < 1 || a.Box[3] < 1 || across <= 0 || down <= 0 {
			continue
		}
		mask, err := a.Mask.Runs(datasets.Size{Height: image.Height, Width: image.Width})
		if err != nil {
			return nil, fmt.Errorf("%s: annotation %d: %w", images.Truth.Name, a.ID, err)
		}
		objects = append(objects, Object{Class: classes[a.Category], Box: [4]float64{x1, y1, x2, y2}, Mask: mask})
	}
	return objects, nil
}

// Drawn returns the objects of image i of a batch as they are trained on, in pixels of the canvas, for pictures.
func (b *DetectionBatch) Drawn(i int) (objects []Object, err error) {
	count := len(b.Labels) / len(b.Images)
	side := int(math.Round(math.Sqrt(float64(len(b.Masks) / len(b.Labels)))))
	for k := i * count; k < (i+1)*count && b.Labels[k] >= 0; k++ {
		frame := ([4]float32)(b.Frames[4*k:])
		cells := make([]float32, side*side)
		for c, inside := range b.Masks[k*side*side:][:side*side] {
			cells[c] = float32(inside)
		}
		pixels, err := detection.Paste(cells, side, frame, b.Canvas.Height, b.Canvas.Width)
		if err != nil {
			return nil, err
		}
		o := Object{Class: int(b.Labels[k])}
		for c := range o.Box {
			o.Box[c] = float64(b.Boxes[4*k+c])
		}
		if o.Mask, err = rle.Encode(b.Canvas.Height, b.Canvas.Width, pixels); err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// batches yields the batches that read makes, from step from on and without end. After an error it ends. The error is that of ctx or of read.
func batches[B any](ctx context.Context, from int, read func(step int) (B, error)) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		for step := from; ; step++ {
			var batch B
			err := ctx.Err()
			if err == nil {
				batch, err = read(step)
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}
