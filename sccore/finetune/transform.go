package finetune

import (
	"bytes"
	"fmt"
	"image"
	"math/rand/v2"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/views"
)

// SegmentationTransform makes training crops of annotated images, as mmsegmentation 0.x: the image is resized to Scale times a random ratio; a square is cropped
// at random, and flipped half of the time; its colours are distorted; and what the image does not fill is padded at the right and at the bottom. Labels
// follow by nearest neighbour.
type SegmentationTransform struct {
	Scale    Scale   `json:"scale"`
	MinRatio float64 `json:"min_ratio" range:"(0,2^14]"` // The least factor on the scale of a training image.
	MaxRatio float64 `json:"max_ratio" range:"(0,2^14]"` // The largest factor on the scale of a training image.
	CropSize int     `json:"crop_size" range:"[1,2048]"` // Height and width of training crops in pixels.

	// CatMaxRatio is the share of a crop's annotated pixels that its largest class stays below, in (0, 1]. A crop with a larger share or with one class alone is drawn
	// again, ten times at most; the last one is taken as it is. 1 takes the first.
	CatMaxRatio float64 `json:"cat_max_ratio" range:"(0,1]"`

	// PhotometricDistortion changes brightness by up to 32 levels, contrast and saturation by a factor of 0.5 to 1.5, and hue by up to 36 degrees, each
	// for half of the images.
	PhotometricDistortion bool `json:"photometric_distortion"`
}

// DefaultSegmentationTransform is the transform of mmsegmentation's recipes on ADE20k. UPerNet and semantic FPN share it.
func DefaultSegmentationTransform() SegmentationTransform {
	return SegmentationTransform{Scale: Scale{2048, 512}, MinRatio: 0.5, MaxRatio: 2, CropSize: 512, CatMaxRatio: 0.75, PhotometricDistortion: true}
}

// Rules returns an error that names the ratios if one is above the other, or if they make images too large.
func (t SegmentationTransform) Rules() error {
	if t.MinRatio > t.MaxRatio || t.MaxRatio*float64(t.Scale.Long) > maxScale {
		return fmt.Errorf("min_ratio %g and max_ratio %g: want min ≤ max, and sides of at most %d pixels", t.MinRatio, t.MaxRatio, maxScale)
	}
	return nil
}

// SegmentationCrop is a training crop.
type SegmentationCrop struct {
	Pixels []uint8       // [CropSize, CropSize, 3], RGB; 0 where the image does not fill the crop.
	Labels []uint8       // [CropSize, CropSize], a class or [datasets.Ignore]; [datasets.Ignore] where the image does not fill the crop.
	Size   datasets.Size // What the image fills, from the top left corner.
}

// Apply makes the crop of an image that a seed, an epoch and the image's index in its set determine.
func (t SegmentationTransform) Apply(a *datasets.SegmentedImage, seed uint64, epoch, image int) SegmentationCrop {
	g := t.geometry(a, views.Stream(seed, epoch, int32(image), 0, "geometry"))
	size := datasets.Size{Height: g.box.Dy(), Width: g.box.Dx()}
	pixels, labels := make([]uint8, 3*t.CropSize*t.CropSize), bytes.Repeat([]uint8{datasets.Ignore}, t.CropSize*t.CropSize)
	resize(pixels, t.CropSize, a.Pixels, datasets.Size{Height: a.Height, Width: a.Width}, g.size, g.box)
	for y, row := range g.rows[g.box.Min.Y:g.box.Max.Y] {
		for x, column := range g.columns[g.box.Min.X:g.box.Max.X] {
			labels[y*t.CropSize+x] = a.Mask[row*a.Width+column]
		}
	}
	if g.flip {
		for y := range size.Height {
			mirror(pixels[3*y*t.CropSize:][:3*size.Width])
			slices.Reverse(labels[y*t.CropSize:][:size.Width])
		}
	}
	if t.PhotometricDistortion {
		drawDistortion(views.Stream(seed, epoch, int32(image), 0, "colours")).apply(pixels, t.CropSize, size)
	}
	return SegmentationCrop{pixels, labels, size}
}

// geometry says where the pixels of a crop come from.
type geometry struct {
	size          datasets.Size   // The size of the resized image.
	rows, columns []int           // The row and the column of the image that each row and column of its resized labels takes.
	box           image.Rectangle // The crop in the resized image.
	flip          bool
}

// cropTries is how often a crop is drawn again.
const cropTries = 10

// geometry draws the ratio, the flip and the crops, whose number varies.
func (t SegmentationTransform) geometry(a *datasets.SegmentedImage, random *rand.Rand) (g geometry) {
	ratio := t.MinRatio + float64((t.MaxRatio-t.MinRatio)*random.Float64())
	g.flip = random.IntN(2) == 1
	g.size = t.Scale.times(ratio).Of(datasets.Size{Height: a.Height, Width: a.Width})
	g.rows, g.columns = nearest(a.Height, g.size.Height), nearest(a.Width, g.size.Width)
	draw := func() image.Rectangle {
		height, width := min(t.CropSize, g.size.Height), min(t.CropSize, g.size.Width)
		top, left := random.IntN(g.size.Height-height+1), random.IntN(g.size.Width-width+1)
		return image.Rect(left, top, left+width, top+height)
	}
	g.box = draw()
	for range cropTries {
		if t.CatMaxRatio == 1 || t.isMixed(a, g) {
			break
		}
		g.box = draw()
	}
	return g
}

// isMixed reports whether no class fills a crop. One class alone has a share of 1.
func (t SegmentationTransform) isMixed(a *datasets.SegmentedImage, g geometry) bool {
	var counts [256]int
	for _, row := range g.rows[g.box.Min.Y:g.box.Max.Y] {
		line := a.Mask[row*a.Width:][:a.Width]
		for _, column := range g.columns[g.box.Min.X:g.box.Max.X] {
			counts[line[column]]++
		}
	}
	most, all := 0, 0
	for _, count := range counts[:datasets.Ignore] {
		most, all = max(most, count), all+count
	}
	return all > 0 && float64(most)/float64(all) < t.CatMaxRatio
}

// mirror reverses a row of RGB pixels.
func mirror(row []uint8) {
	slices.Reverse(row) // Now the colours are reversed too.
	for i := 0; i < len(row); i += 3 {
		row[i], row[i+2] = row[i+2], row[i]
	}
}
