package finetune

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/rle"
)

// Batch is the input of a part of a training step. I is [SegmentationCrop] or [DetectionImage].
type Batch[I any] struct {
	Step   int           // The number of the part, counted over all steps.
	Canvas datasets.Size // Of each image.
	Images []Place
	Made   []I // One for each of Images.
}

// Place is an image by its index in its set, and the epoch that it is seen in.
type Place struct{ Image, Epoch int }

// batches yields the parts of a run's batches from one on, without end. A part depends only on the images, the transform, the size of a part, the seed and
// its number: a run resumes from the number alone. The images of all parts of a step are read at once. plan returns the images of a part and their canvas;
// it is called for one part after the other. After an error it ends, which is that of ctx or read.
func batches[I any](
	ctx context.Context, t Training, from int, plan func(number int) (datasets.Size, []Place), read func(canvas datasets.Size, at Place) (I, error),
) iter.Seq2[*Batch[I], error] {
	return func(yield func(*Batch[I], error) bool) {
		for {
			var group []*Batch[I]
			for number := from; number == from || number%t.Parts != 0; number++ {
				canvas, images := plan(number)
				group = append(group, &Batch[I]{Step: number, Canvas: canvas, Images: images, Made: make([]I, len(images))})
			}
			err := datasets.EachImage(ctx, len(group)*t.part(), 0, func(i int) (err error) {
				batch, place := group[i/t.part()], i%t.part()
				batch.Made[place], err = read(batch.Canvas, batch.Images[place])
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, batch := range group {
				if !yield(batch, nil) {
					return
				}
			}
			from += len(group)
		}
	}
}

// Batches yields the parts of a run's batches from a number on, without end. The images are shuffled anew in each epoch, and images left over from the last
// whole part of an epoch begin the next one. After an error it ends. The error is that of ctx, or one line that names a file.
func (t SegmentationTraining) Batches(ctx context.Context, images *datasets.Segmentation, seed uint64, from int) iter.Seq2[*Batch[SegmentationCrop], error] {
	order := datasets.Order{Seed: seed}
	return batches(ctx, t.Training, from, func(number int) (datasets.Size, []Place) {
		places := make([]Place, t.part())
		for i := range places {
			places[i].Epoch, places[i].Image = order.At(number*t.part()+i, images.Len())
		}
		return datasets.Size{Height: t.Transform.CropSize, Width: t.Transform.CropSize}, places
	}, func(_ datasets.Size, at Place) (crop SegmentationCrop, err error) {
		a, err := images.Read(at.Image)
		if err != nil {
			return crop, err
		}
		return t.Transform.Apply(a, seed, at.Epoch, at.Image), nil
	})
}

// Batches yields the parts of a run's batches from a number on, without end. The images of a part share their canvas, which lies across or upright as they
// do. Each epoch shuffles the images within each canvas, and then the parts. The last part of a canvas is filled up with its first images.
//
// Crowds are left out, and so are objects that lie outside of their image or have a side of less than a pixel, as by mmdetection. Errors are as for
// segmentation.
func (t DetectionTraining) Batches(ctx context.Context, images *datasets.ObjectImages, seed uint64, from int) iter.Seq2[*Batch[DetectionImage], error] {
	order := canvasOrder{DetectionTraining: t, images: images, seed: seed, epoch: -1}
	for i := range images.Len() {
		group := 0
		if order.canvas(i) != t.canvas() {
			group = 1
		}
		order.groups[group] = append(order.groups[group], i)
	}
	return batches(ctx, t.Training, from, order.at, func(canvas datasets.Size, at Place) (made DetectionImage, err error) {
		picture, err := images.Read(at.Image)
		if err != nil {
			return made, err
		}
		objects, err := objectsOf(images, at.Image)
		if err != nil {
			return made, err
		}
		return t.Transform.Apply(picture, objects, canvas, t.Objects, t.MaskSize, seed, at.Epoch, at.Image), nil
	})
}

// canvasOrder is the order of the parts.
type canvasOrder struct {
	DetectionTraining
	images *datasets.ObjectImages
	seed   uint64
	groups [2][]int // The images that lie across, and the others, or all in the first one if both canvases are one.

	epoch   int
	batches [][]Place // Of the epoch.
}

// canvas is the canvas of an image.
func (o *canvasOrder) canvas(i int) datasets.Size {
	image := o.images.Image(i)
	return o.Transform.scale().canvasFor(datasets.Size{Height: image.Height, Width: image.Width}, o.Detector.divisor())
}

// at returns the images of a part, counted from the start of the first epoch, and their canvas.
func (o *canvasOrder) at(position int) (canvas datasets.Size, images []Place) {
	count, size := 0, o.part()
	for _, group := range o.groups {
		count += (len(group) + size - 1) / size
	}
	if epoch := position / count; epoch != o.epoch {
		random := rand.New(rand.NewPCG(o.seed, uint64(epoch)))
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
		pixels := detection.Paste(cells, side, [4]float32(m.Frames[4*k:]), canvas.Height, canvas.Width)
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
