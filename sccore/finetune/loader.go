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
	"github.com/semcon/semcon/sccore/settings"
)

// SegmentationLoader makes training batches of crops. The images are shuffled anew in each epoch, and images left over from the last whole batch of an epoch
// begin the next one. A batch depends only on the settings, the seed and the step: a run resumes from the step alone, and the number of workers changes nothing.
type SegmentationLoader struct {
	Images    *datasets.Segmentation
	Transform SegmentationTransform
	BatchSize int    // Crops per batch.
	Seed      uint64 // Of order and crops.
	Workers   int    // Images read at once; 0 for one per processor.
}

// SegmentationBatch is the input of one training step.
type SegmentationBatch struct {
	Step   int
	Pixels []uint8 // [BatchSize, CropSize, CropSize, 3], as in [SegmentationCrop].
	Labels []uint8 // [BatchSize, CropSize, CropSize].
	Sizes  []int32 // [BatchSize, 2], height and width of what the image fills.
	Images []int   // [BatchSize], the index of each image.
}

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
	return settings.Check(l.Transform)
}

// Batches yields the batches from the given step on, without end. After an error it ends. The error is that of ctx, or one line that names a file.
func (l SegmentationLoader) Batches(ctx context.Context, from int) iter.Seq2[*SegmentationBatch, error] {
	if err := l.Check(); err != nil {
		return func(yield func(*SegmentationBatch, error) bool) { yield(nil, err) }
	}
	order, area := datasets.Order{Seed: l.Seed}, l.Transform.CropSize*l.Transform.CropSize
	return batches(ctx, from, func(step int) (*SegmentationBatch, error) {
		n := l.BatchSize
		b := &SegmentationBatch{Step: step, Pixels: make([]uint8, 3*area*n), Labels: make([]uint8, area*n), Sizes: make([]int32, 2*n), Images: make([]int, n)}
		epochs := make([]int, n)
		for i := range n {
			epochs[i], b.Images[i] = order.At(step*n+i, l.Images.Len())
		}
		return b, datasets.EachImage(ctx, n, l.Workers, func(i int) error {
			a, err := l.Images.Read(b.Images[i])
			if err == nil {
				err = check(a, len(l.Images.Classes))
			}
			if err != nil {
				return err
			}
			size := l.Transform.write(b.Pixels[3*area*i:][:3*area], b.Labels[area*i:][:area], a, l.Seed, epochs[i], b.Images[i])
			b.Sizes[2*i], b.Sizes[2*i+1] = int32(size.Height), int32(size.Width)
			return nil
		})
	})
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
	return settings.Check(l.Transform)
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
			if err != nil {
				var none B
				yield(none, err)
				return
			}
			if !yield(batch, nil) {
				return
			}
		}
	}
}
