package finetune

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/rle"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/views"
)

// DetectionTransform resizes images with their objects for training, as DETR (Carion et al. 2020) and the recipes of Swin, iBOT and Mugs in mmdetection: half of
// the images are resized to a random scale; the others are resized, cropped at random and resized to such a scale. Half of all are flipped. The result
// lies in the top left corner of a canvas.
type DetectionTransform struct {
	MinShort int `json:"min_short" range:"[1,2048]"` // Least length in pixels of the shorter side, which is MinShort, MinShort + Step, … or MaxShort.
	MaxShort int `json:"max_short" range:"[1,2048]"` // Largest length in pixels of the shorter side.
	Step     int `json:"step" range:"[1,2^14]"`      // Pixels between two lengths of the shorter side.
	Long     int `json:"long" range:"[1,2048]"`      // Largest length in pixels of the longer side.

	CropShort [3]int `json:"crop_short" range:"[1,2^14]"` // The shorter side before a crop is one of these.
	MinCrop   int    `json:"min_crop" range:"[1,2^14]"`   // Least side of a crop in pixels; the sides of a smaller image are kept.
	MaxCrop   int    `json:"max_crop" range:"[1,2^14]"`   // Largest side of a crop in pixels.
}

// Rules returns an error that names the first of two lengths that are the wrong way round.
func (t DetectionTransform) Rules() error {
	return cmp.Or(settings.Between("max_short", t.MaxShort, 1, t.Long), settings.Between("min_short", t.MinShort, 1, t.MaxShort), settings.Between("min_crop", t.MinCrop, 1, t.MaxCrop))
}

// scale is the largest scale.
func (t DetectionTransform) scale() Scale { return Scale{Long: t.Long, Short: t.MaxShort} }

// canvasFor returns the canvas for images of one orientation, the scale rounded up to a multiple of divisor. Images that are as wide as high lie across.
func (s Scale) canvasFor(size datasets.Size, divisor int) datasets.Size {
	long, short := roundUp(s.Long, divisor), roundUp(s.Short, divisor)
	return lo.Ternary(size.Height > size.Width, datasets.Size{Height: long, Width: short}, datasets.Size{Height: short, Width: long})
}

// Object is an annotated object of an image.
type Object struct {
	Class int
	Box   [4]float64 // x1, y1, x2, y2 in pixels.
	Mask  rle.Mask   // Of the image's size.
}

// DetectionImage is a training image on its canvas. Objects are padded to one number.
type DetectionImage struct {
	Pixels []uint8       // [canvas height, canvas width, 3], RGB; 0 where the image does not fill it.
	Size   datasets.Size // What the image fills, from the top left corner.
	Boxes  []float32     // [objects, 4], x1, y1, x2, y2 in pixels of the canvas; 0 for padding.
	Labels []int32       // [objects], the class, and -1 for padding.
	Masks  []uint8       // [objects, mask size, mask size], 1 inside, of the frames, with a border of zeros.
	Frames []float32     // [objects, 4], the region of the canvas that a mask covers, as boxes; 0 for padding.
}

// Apply makes the training image of an image that a seed, an epoch and the image's index in its set determine. At most count objects are kept, the first ones;
// those that a crop leaves out do not count. maskSize is the side of masks, at least 3.
func (t DetectionTransform) Apply(a *datasets.SegmentedImage, objects []Object, canvas datasets.Size, count, maskSize int, seed uint64, epoch, image int) DetectionImage {
	g := t.geometry(datasets.Size{Height: a.Height, Width: a.Width}, canvas, views.Stream(seed, epoch, int32(image), 0, "geometry"))
	out := DetectionImage{
		Pixels: make([]uint8, 3*canvas.Height*canvas.Width), Size: g.size,
		Boxes: make([]float32, 4*count), Frames: make([]float32, 4*count),
		Labels: slices.Repeat([]int32{-1}, count), Masks: make([]uint8, count*maskSize*maskSize),
	}
	g.write(out.Pixels, canvas.Width, a)
	n := 0
	for _, object := range objects {
		box, ok := g.box(object.Box)
		if !ok || n == count {
			continue
		}
		out.Labels[n] = int32(object.Class)
		cells := float64(maskSize - 2)
		across, down := (box[2]-box[0])/cells, (box[3]-box[1])/cells
		for i, v := range [4]float64{box[0] - across, box[1] - down, box[2] + across, box[3] + down} {
			out.Boxes[4*n+i], out.Frames[4*n+i] = float32(box[i]), float32(v)
		}
		g.mask(out.Masks[n*maskSize*maskSize:][:maskSize*maskSize], maskSize, object.Mask, box)
		n++
	}
	return out
}

// detectionGeometry says where the pixels of a training image come from: the image is resized to first, cropped to crop, resized to size and flipped.
type detectionGeometry struct {
	from, first datasets.Size
	crop        image.Rectangle
	size        datasets.Size
	flip        bool
}

// geometry draws the flip, the path and its numbers.
func (t DetectionTransform) geometry(from, canvas datasets.Size, random *rand.Rand) detectionGeometry {
	g := detectionGeometry{from: from, first: from, flip: random.IntN(2) == 1}
	g.crop = image.Rect(0, 0, from.Width, from.Height)
	if random.IntN(2) == 1 {
		g.first = Scale{Long: t.Long, Short: t.CropShort[random.IntN(len(t.CropShort))]}.Of(from)
		side := func(length int) int {
			low, high := min(t.MinCrop, length), min(t.MaxCrop, length)
			return low + random.IntN(high-low+1)
		}
		height, width := side(g.first.Height), side(g.first.Width)
		top, left := random.IntN(g.first.Height-height+1), random.IntN(g.first.Width-width+1)
		g.crop = image.Rect(left, top, left+width, top+height)
	}
	short := min(t.MinShort+t.Step*random.IntN((t.MaxShort-t.MinShort)/t.Step+1), t.MaxShort)
	part := datasets.Size{Height: g.crop.Dy(), Width: g.crop.Dx()}
	g.size = Scale{Long: t.Long, Short: short}.Of(part)
	if g.size.Height > canvas.Height || g.size.Width > canvas.Width { // The crop has the other orientation than the canvas of its image.
		factor := min(float64(canvas.Height)/float64(part.Height), float64(canvas.Width)/float64(part.Width))
		length := func(side, most int) int { return min(max(1, int(float64(float64(side)*factor)+0.5)), most) }
		g.size = datasets.Size{Height: length(part.Height, canvas.Height), Width: length(part.Width, canvas.Width)}
	}
	return g
}

// write writes the pixels of the image into the top left corner of a canvas whose rows have stride pixels.
func (g detectionGeometry) write(pixels []uint8, stride int, a *datasets.SegmentedImage) {
	source, size := a.Pixels, g.from
	if g.crop.Size() != image.Pt(g.from.Width, g.from.Height) || g.first != g.from {
		size = datasets.Size{Height: g.crop.Dy(), Width: g.crop.Dx()}
		source = make([]uint8, 3*size.Height*size.Width)
		resize(source, size.Width, a.Pixels, g.from, g.first, g.crop)
	}
	resize(pixels, stride, source, size, g.size, image.Rect(0, 0, g.size.Width, g.size.Height))
	if g.flip {
		for y := range g.size.Height {
			datasets.Mirror(pixels[3*y*stride:][:3*g.size.Width])
		}
	}
}

// axis says where a side of the result comes from: from pixels are resized to first, of which crop pixels from start on are resized to size.
type axis struct{ from, first, start, crop, size int }

func (g detectionGeometry) axes() (across, down axis) {
	return axis{g.from.Width, g.first.Width, g.crop.Min.X, g.crop.Dx(), g.size.Width}, axis{g.from.Height, g.first.Height, g.crop.Min.Y, g.crop.Dy(), g.size.Height}
}

// scales are the factors of both resizes.
func (a axis) scales() (before, after float64) {
	return float64(a.first) / float64(a.from), float64(a.size) / float64(a.crop)
}

// to moves a place of the image to the result, and clips it.
func (a axis) to(v float64) float64 {
	before, after := a.scales()
	return min(max(float64(float64(v*before)-float64(a.start))*after, 0), float64(a.size))
}

// pixels returns the pixel of the image at the centre of each of n cells from low to high, places of the result before it is flipped.
func (a axis) pixels(low, high float64, n int, flip bool) []int {
	before, after := a.scales()
	all := make([]int, n)
	for i := range all {
		at := low + float64((high-low)*(float64(i)+0.5)/float64(n))
		if flip {
			at = float64(a.size) - at
		}
		all[i] = min(max(int((float64(at/after)+float64(a.start))/before), 0), a.from-1)
	}
	return all
}

// box moves a box of the image onto the canvas, and clips it. It reports whether something of it is left.
func (g detectionGeometry) box(box [4]float64) (out [4]float64, ok bool) {
	across, down := g.axes()
	out = [4]float64{across.to(box[0]), down.to(box[1]), across.to(box[2]), down.to(box[3])}
	if g.flip {
		out[0], out[2] = float64(g.size.Width)-out[2], float64(g.size.Width)-out[0]
	}
	return out, out[2] > out[0] && out[3] > out[1]
}

// mask samples the mask of an object in a box of the canvas: each of the inner cells takes the pixel of the image at its centre.
func (g detectionGeometry) mask(cells []uint8, side int, mask rle.Mask, box [4]float64) {
	inside := mask.Pixels()
	across, down := g.axes()
	columns, rows := across.pixels(box[0], box[2], side-2, g.flip), down.pixels(box[1], box[3], side-2, false)
	for y, row := range rows {
		for x, column := range columns {
			if inside[row*g.from.Width+column] {
				cells[(y+1)*side+x+1] = 1
			}
		}
	}
}

// Batches yields the parts of a run's batches from a number on, without end. The images of a part share their canvas, which lies across or upright as they
// do. Each epoch shuffles the images within each canvas, and then the parts. The last part of a canvas is filled up with its first images.
//
// Crowds are left out, and so are objects that lie outside of their image or have a side of less than a pixel, as by mmdetection. Errors are as for
// segmentation.
func (t DetectionTraining) Batches(ctx context.Context, images *datasets.ObjectImages, seed uint64, from int) iter.Seq2[*Batch[DetectionImage], error] {
	order := canvasOrder{DetectionTraining: t, images: images, seed: seed, epoch: -1}
	for i := range images.Len() {
		group := lo.Ternary(order.canvas(i) == t.canvas(), 0, 1)
		order.groups[group] = append(order.groups[group], i)
	}
	return batches(ctx, t.Training, images.Len(), from, order.at, func(canvas datasets.Size, at Place) (made DetectionImage, err error) {
		defer try.Handle(&err)
		picture := try.E1(images.Read(at.Image))
		objects := try.E1(objectsOf(images, at.Image))
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
	size := o.part()
	count := lo.SumBy(o.groups[:], func(group []int) int { return (len(group) + size - 1) / size })
	if epoch := position / count; epoch != o.epoch {
		random := rand.New(rand.NewPCG(o.seed, uint64(epoch)))
		o.epoch, o.batches = epoch, nil
		for _, group := range o.groups {
			order := random.Perm(len(group))
			for first := 0; first < len(group); first += size {
				o.batches = append(o.batches, lo.Times(size, func(i int) Place { return Place{group[order[(first+i)%len(group)]], epoch} }))
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
	defer try.Handle(&err)
	image := images.Image(i)
	for _, a := range images.Annotations(i) {
		across := min(a.Box[0]+a.Box[2], float64(image.Width)) - max(a.Box[0], 0)
		down := min(a.Box[1]+a.Box[3], float64(image.Height)) - max(a.Box[1], 0)
		if !a.Crowd && a.Area > 0 && a.Box[2] >= 1 && a.Box[3] >= 1 && across > 0 && down > 0 {
			objects = append(objects, try.E1(ObjectOf(images, i, a)))
		}
	}
	return objects, nil
}

// Drawn returns the objects as they are trained on, in pixels of the canvas, for pictures.
func (m DetectionImage) Drawn(canvas datasets.Size) (objects []Object, err error) {
	defer try.Handle(&err)
	side := int(math.Round(math.Sqrt(float64(len(m.Masks) / len(m.Labels)))))
	for k := 0; k < len(m.Labels) && m.Labels[k] >= 0; k++ {
		cells := lo.Map(m.Masks[k*side*side:][:side*side], func(inside uint8, _ int) float32 { return float32(inside) })
		pixels := detection.Paste(cells, side, [4]float32(m.Frames[4*k:]), canvas.Height, canvas.Width)
		o := Object{Class: int(m.Labels[k]), Mask: try.E1(rle.Encode(canvas.Height, canvas.Width, pixels))}
		for c := range o.Box {
			o.Box[c] = float64(m.Boxes[4*k+c])
		}
		objects = append(objects, o)
	}
	return objects, nil
}
