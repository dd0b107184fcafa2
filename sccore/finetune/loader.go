package finetune

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/rle"
	"github.com/semcon/semcon/sccore/settings"
)

// Loading says how training batches are read. A batch depends only on the images, the transform, the batch size, the seed and the step: a run resumes from the
// step alone, and the numbers of workers and of batches at once change nothing.
type Loading struct {
	BatchSize int    `json:"batch_size" range:"[1,2^20]"` // Images per batch.
	Seed      uint64 // Of order and transforms.
	Workers   int    `json:"workers" range:"[0,2^20]"`  // Images read at once; 0 for one per processor.
	Together  int    `json:"together" range:"[0,2^20]"` // Batches whose images are read at once, such as the parts of a step; 0 for 1.
}

// Batch is the input of one training step, or of a part of one. I is [SegmentationCrop] or [DetectionImage].
type Batch[I any] struct {
	Step   int
	Canvas datasets.Size // Of each image.
	Images []Place
	Made   []I // One for each of Images.
}

// Place is an image by its index in its set, and the epoch that it is seen in.
type Place struct{ Image, Epoch int }

// batches yields the batches from a step on, without end. plan returns the images of a step and their canvas; it is called for one step after the other. After
// an error it ends. The error is invalid, if it is not nil, or the error of ctx or read.
func batches[I any](
	ctx context.Context, l Loading, invalid error, from int, plan func(step int) (datasets.Size, []Place), read func(canvas datasets.Size, at Place) (I, error),
) iter.Seq2[*Batch[I], error] {
	return func(yield func(*Batch[I], error) bool) {
		err := invalid
		for together := max(1, l.Together); err == nil; {
			var group []*Batch[I]
			for step := from; step == from || step%together != 0; step++ {
				canvas, images := plan(step)
				group = append(group, &Batch[I]{Step: step, Canvas: canvas, Images: images, Made: make([]I, len(images))})
			}
			if err = datasets.EachImage(ctx, len(group)*l.BatchSize, l.Workers, func(i int) (err error) {
				batch, place := group[i/l.BatchSize], i%l.BatchSize
				batch.Made[place], err = read(batch.Canvas, batch.Images[place])
				return err
			}); err != nil {
				break
			}
			for _, batch := range group {
				if !yield(batch, nil) {
					return
				}
			}
			from += len(group)
		}
		yield(nil, err)
	}
}

// SegmentationLoader makes training batches of crops. The images are shuffled anew in each epoch, and images left over from the last whole batch of an epoch
// begin the next one.
type SegmentationLoader struct {
	Images    *datasets.Segmentation `range:"-"`
	Transform SegmentationTransform
	Loading
}

// Batches yields the batches from the given step on, without end. After an error it ends. The error is that of ctx, or one line that names a setting or a file.
func (l SegmentationLoader) Batches(ctx context.Context, from int) iter.Seq2[*Batch[SegmentationCrop], error] {
	invalid := settings.Check(l)
	if l.Images == nil || l.Images.Len() < 1 {
		invalid = errors.New("no images to train on")
	}
	order := datasets.Order{Seed: l.Seed}
	return batches(ctx, l.Loading, invalid, from, func(step int) (datasets.Size, []Place) {
		images := make([]Place, l.BatchSize)
		for i := range images {
			images[i].Epoch, images[i].Image = order.At(step*l.BatchSize+i, l.Images.Len())
		}
		return datasets.Size{Height: l.Transform.CropSize, Width: l.Transform.CropSize}, images
	}, func(_ datasets.Size, at Place) (crop SegmentationCrop, err error) {
		a, err := l.Images.Read(at.Image)
		if err == nil {
			err = check(a, len(l.Images.Classes))
		}
		if err != nil {
			return crop, err
		}
		return l.Transform.Apply(a, l.Seed, at.Epoch, at.Image), nil
	})
}

// DetectionLoader makes training batches of images with objects. The images of a batch share their canvas, which lies across or upright as they do. Each epoch
// shuffles the images within each canvas, and then the batches. The last batch of a canvas is filled up with its first images.
//
// Crowds are left out, and so are objects that lie outside of their image or have a side of less than a pixel, as by mmdetection.
type DetectionLoader struct {
	Images    *datasets.ObjectImages `range:"-"`
	Transform DetectionTransform
	Divisor   int `json:"divisor" range:"[1,2^14]"`   // Of the sides of the canvas in pixels.
	Objects   int `json:"objects" range:"[1,2^10]"`   // Places for objects an image.
	MaskSize  int `json:"mask_size" range:"[3,2^10]"` // Side of their masks.
	Loading
}

// Batches yields the batches from the given step on, without end. After an error it ends. The error is that of ctx, or one line that names a setting or a file.
func (l DetectionLoader) Batches(ctx context.Context, from int) iter.Seq2[*Batch[DetectionImage], error] {
	invalid := settings.Check(l)
	if l.Images == nil || l.Images.Len() < 1 {
		invalid = errors.New("no images with objects to train on")
	}
	var order *canvasOrder
	if invalid == nil {
		order = newCanvasOrder(l)
	}
	return batches(ctx, l.Loading, invalid, from, order.at, func(canvas datasets.Size, at Place) (made DetectionImage, err error) {
		picture, err := l.Images.Read(at.Image)
		if err != nil {
			return made, err
		}
		objects, err := objectsOf(l.Images, at.Image)
		if err != nil {
			return made, err
		}
		return l.Transform.Apply(picture, objects, canvas, l.Objects, l.MaskSize, l.Seed, at.Epoch, at.Image), nil
	})
}

// canvasOrder is the order of the batches.
type canvasOrder struct {
	loader DetectionLoader
	groups [2][]int // The images that lie across, and the others, or all in the first one if both canvases are one.

	epoch   int
	batches [][]Place // Of the epoch.
}

func newCanvasOrder(l DetectionLoader) *canvasOrder {
	o := &canvasOrder{loader: l, epoch: -1}
	across := l.Transform.scale().canvasFor(datasets.Size{Height: 1, Width: 2}, l.Divisor)
	for i := range l.Images.Len() {
		group := 0
		if o.canvas(i) != across {
			group = 1
		}
		o.groups[group] = append(o.groups[group], i)
	}
	return o
}

// canvas is the canvas of an image.
func (o *canvasOrder) canvas(i int) datasets.Size {
	image := o.loader.Images.Image(i)
	return o.loader.Transform.scale().canvasFor(datasets.Size{Height: image.Height, Width: image.Width}, o.loader.Divisor)
}

// at returns the images of a batch, counted from the start of the first epoch, and their canvas.
func (o *canvasOrder) at(position int) (canvas datasets.Size, images []Place) {
	count, size := 0, o.loader.BatchSize
	for _, group := range o.groups {
		count += (len(group) + size - 1) / size
	}
	if epoch := position / count; epoch != o.epoch {
		random := rand.New(rand.NewPCG(o.loader.Seed, uint64(epoch)))
		o.epoch, o.batches = epoch, nil
		for _, group := range o.groups {
			order := random.Perm(len(group))
			for first := 0; first < len(group); first += size {
				var batch []Place
				for i := range size {
					batch = append(batch, Place{group[order[(first+i)%len(group)]], epoch})
				}
				o.batches = append(o.batches, batch)
			}
		}
		random.Shuffle(count, func(i, j int) { o.batches[i], o.batches[j] = o.batches[j], o.batches[i] })
	}
	images = o.batches[position%count]
	return o.canvas(images[0].Image), images
}

// ObjectOf returns an annotation of image i as an object. The error names the annotation if its mask cannot be drawn.
func ObjectOf(images *datasets.ObjectImages, i int, a datasets.Annotation) (o Object, err error) {
	image := images.Image(i)
	o.Class = slices.IndexFunc(images.Truth.Categories, func(c datasets.ObjectCategory) bool { return c.ID == a.Category })
	o.Box = [4]float64{a.Box[0], a.Box[1], a.Box[0] + a.Box[2], a.Box[1] + a.Box[3]}
	if o.Mask, err = a.Mask.Runs(datasets.Size{Height: image.Height, Width: image.Width}); err != nil {
		return o, fmt.Errorf("%s: annotation %d: %w", images.Truth.Name, a.ID, err)
	}
	return o, nil
}

// objectsOf returns the objects of an image that are trained on.
func objectsOf(images *datasets.ObjectImages, i int) (objects []Object, err error) {
	image := images.Image(i)
	for _, a := range images.Annotations(i) {
		across := min(a.Box[0]+a.Box[2], float64(image.Width)) - max(a.Box[0], 0)
		down := min(a.Box[1]+a.Box[3], float64(image.Height)) - max(a.Box[1], 0)
		if a.Crowd || a.Area <= 0 || a.Box[2] < 1 || a.Box[3] < 1 || across <= 0 || down <= 0 {
			continue
		}
		o, err := ObjectOf(images, i, a)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// Drawn returns the objects as they are trained on, in pixels of the canvas, for pictures.
func (m DetectionImage) Drawn(canvas datasets.Size) (objects []Object, err error) {
	side := int(math.Round(math.Sqrt(float64(len(m.Masks) / len(m.Labels)))))
	for k := 0; k < len(m.Labels) && m.Labels[k] >= 0; k++ {
		cells := make([]float32, side*side)
		for c, inside := range m.Masks[k*side*side:][:side*side] {
			cells[c] = float32(inside)
		}
		pixels, err := detection.Paste(cells, side, [4]float32(m.Frames[4*k:]), canvas.Height, canvas.Width)
		if err != nil {
			return nil, err
		}
		o := Object{Class: int(m.Labels[k])}
		for c := range o.Box {
			o.Box[c] = float64(m.Boxes[4*k+c])
		}
		if o.Mask, err = rle.Encode(canvas.Height, canvas.Width, pixels); err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}
