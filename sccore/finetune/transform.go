package finetune

import (
	"bytes"
	"fmt"
	"image"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/settings"
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
			datasets.Mirror(pixels[3*y*t.CropSize:][:3*size.Width])
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
	times := func(side int) int { return max(1, int(float64(side)*ratio)) }
	g.size = Scale{times(t.Scale.Long), times(t.Scale.Short)}.Of(datasets.Size{Height: a.Height, Width: a.Width})
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
	most, all := slices.Max(counts[:datasets.Ignore]), lo.Sum(counts[:datasets.Ignore])
	return all > 0 && float64(most)/float64(all) < t.CatMaxRatio
}

// distortion is a photometric distortion of bytes, as mmsegmentation's PhotoMetricDistortion: brightness; contrast, here or at the end; saturation; hue. Each
// applies to half of the images, so that one in sixteen stays as it is.
type distortion struct {
	brightness    float32 // Added to each channel; 0 for none.
	contrast      float32 // What each channel is multiplied by; 1 for none.
	contrastFirst bool    // Contrast comes before saturation and hue.

	// Saturation and hue are changed in 8-bit HSV. The way there and back changes most colours by a level or two.
	saturates, shiftsHue bool
	saturation           float32 // What the saturation is multiplied by.
	hue                  int     // Added to the hue, which counts from 0 to 179.
}

// The ranges of the recipe. The hue is shifted by −18 to 17, because NumPy leaves out the upper end.
const (
	brightnessDelta                                                  = 32
	minContrast, maxContrast, minSaturation, maxSaturation, hueDelta = 0.5, 1.5, 0.5, 1.5, 18
)

// drawDistortion draws one. It draws everything, also what does not apply.
func drawDistortion(random *rand.Rand) distortion {
	half := func() bool { return random.IntN(2) == 1 }
	uniform := func(low, high float64) float32 { return float32(low + float64((high-low)*random.Float64())) }
	brightens, brightness := half(), uniform(-brightnessDelta, brightnessDelta)
	d := distortion{contrast: 1, contrastFirst: half()}
	contrasts, contrast := half(), uniform(minContrast, maxContrast)
	d.saturates, d.saturation = half(), uniform(minSaturation, maxSaturation)
	d.shiftsHue, d.hue = half(), random.IntN(2*hueDelta)-hueDelta
	if brightens {
		d.brightness = brightness
	}
	if contrasts {
		d.contrast = contrast
	}
	return d
}

// apply distorts an image in the top left corner of RGB pixels, whose rows have stride pixels.
func (d distortion) apply(pixels []uint8, stride int, size datasets.Size) {
	before, after := scaled(1, d.brightness), scaled(1, 0)
	if contrast := scaled(d.contrast, 0); d.contrastFirst {
		for i, x := range before {
			before[i] = contrast[x]
		}
	} else {
		after = contrast
	}
	saturation := scaled(d.saturation, 0)
	for y := range size.Height {
		for x := range size.Width {
			p := (*[3]uint8)(pixels[3*(y*stride+x):])
			for c := range p {
				p[c] = before[p[c]]
			}
			if d.saturates {
				h, s, v := toHSV(*p)
				*p = fromHSV(h, saturation[s], v)
			}
			if d.shiftsHue {
				h, s, v := toHSV(*p)
				*p = fromHSV(uint8((int(h)+d.hue+hues)%hues), s, v)
			}
			for c := range p {
				p[c] = after[p[c]]
			}
		}
	}
}

// scaled is a table of bytes times a factor plus a summand, clipped and rounded down, in float32.
func scaled(factor, summand float32) (table [256]uint8) {
	for x := range table {
		table[x] = uint8(min(max(float32(float32(x)*factor)+summand, 0), 255))
	}
	return table
}

// hues is the number of hues in 8-bit HSV: one for every two degrees.
const hues = 180

// hsvBits is the number of binary digits of the reciprocals in these tables, as in OpenCV.
const hsvBits = 12

var saturationOver, hueOver = func() (saturation, hue [256]int) {
	for i := 1; i < 256; i++ {
		saturation[i] = int(math.RoundToEven(255 << hsvBits / float64(i)))
		hue[i] = int(math.RoundToEven(hues << hsvBits / (6 * float64(i))))
	}
	return saturation, hue
}()

// toHSV returns hue, 0 to 179, saturation and value of an RGB colour. It computes as cv2.cvtColor with COLOR_RGB2HSV, to the last bit for every colour.
func toHSV(p [3]uint8) (h, s, v uint8) {
	r, g, b := int(p[0]), int(p[1]), int(p[2])
	value := max(r, g, b)
	chroma := value - min(r, g, b)
	hue := 0
	switch value {
	case r:
		hue = g - b
	case g:
		hue = b - r + 2*chroma
	default:
		hue = r - g + 4*chroma
	}
	const half = 1 << (hsvBits - 1)
	if hue = (hue*hueOver[chroma] + half) >> hsvBits; hue < 0 {
		hue += hues
	}
	return uint8(hue), uint8((chroma*saturationOver[value] + half) >> hsvBits), uint8(value)
}

// fromHSV returns the RGB colour of hue, below 180, saturation and value. It computes as cv2.cvtColor with COLOR_HSV2RGB, to the last bit for every colour,
// on processors with fused multiplication and addition. OpenCV rounds down there, but rounds to the nearest in the last few pixels of a row that are fewer than a
// vector register takes; here all pixels are rounded down.
func fromHSV(h, s, v uint8) [3]uint8 {
	hue := float32(h) * (6.0 / hues)
	sector := int(hue)
	hue -= float32(sector)
	saturation, value := float32(float32(s)*(1.0/255)), float32(float32(v)*(1.0/255))
	fused := func(share float32) float32 { return float32(1 - float64(saturation)*float64(share)) } // The product is exact.
	level := func(factor float32) uint8 { return uint8(float32(float32(value*factor) * 255)) }
	full, low, falling, rising := level(1), level(1-saturation), level(fused(hue)), level(fused(1-hue))
	return [6][3]uint8{
		{full, rising, low}, {falling, full, low}, {low, full, rising}, {low, falling, full}, {rising, low, full}, {full, low, falling},
	}[sector]
}

// Scale says how large images become: as large as they can with their aspect kept, their longer side at most Long and their shorter side at most Short.
type Scale struct {
	Long  int `json:"long" range:"[1,2^14]"`  // Longest side of a resized image in pixels.
	Short int `json:"short" range:"[1,2^14]"` // Its shorter side in pixels, at most Long.
}

// maxScale bounds the sides, as the ratio of [SegmentationTransform] does, so that a wrong setting is an error and not out of memory.
const maxScale = 1 << 14

// Rules returns an error if the sides are the wrong way round; see [settings.Check].
func (s Scale) Rules() error { return settings.Between("short", s.Short, 1, s.Long) }

// roundUp returns the least multiple of by that is at least a side.
func roundUp(side, by int) int { return (side + by - 1) / by * by }

// Of returns the size that an image becomes, each side rounded to the nearest pixel, as by mmcv's imrescale.
func (s Scale) Of(size datasets.Size) datasets.Size {
	factor := min(float64(s.Long)/float64(max(size.Height, size.Width)), float64(s.Short)/float64(min(size.Height, size.Width)))
	length := func(side int) int { return max(1, int(float64(float64(side)*factor)+0.5)) }
	return datasets.Size{Height: length(size.Height), Width: length(size.Width)}
}

// coefBits is the number of binary digits of weights, as in OpenCV.
const coefBits = 11

// tap is how one sample of a resized line is computed: two samples of the old line and their weights in units of 2^−coefBits.
type tap struct{ low, high, lowWeight, highWeight int32 }

// taps returns the taps of cv2.resize with INTER_LINEAR, without antialiasing. Beyond the centres of the border samples, a row takes the border's value, and
// a column weighs the border's value with itself, which rounds differently.
func taps(from, to int, alongRow bool) []tap {
	step := 1 / (float64(to) / float64(from))
	last := int32(from - 1)
	all := make([]tap, to)
	for i := range all {
		at := float32(float64((float64(i)+0.5)*step) - 0.5)
		low := int32(math.Floor(float64(at)))
		share := lo.Ternary(alongRow && (low < 0 || low >= last), 0, at-float32(low))
		weight := func(share float32) int32 { return int32(math.RoundToEven(float64(share * (1 << coefBits)))) }
		inside := func(i int32) int32 { return min(max(i, 0), last) }
		all[i] = tap{inside(low), inside(low + 1), weight(1 - share), weight(share)}
	}
	return all
}

// resize resizes RGB pixels, [from.Height, from.Width, 3], and writes a part of the result to the top left corner of out, whose rows have stride pixels. It
// computes as cv2.resize with INTER_LINEAR, to the last bit.
func resize(out []uint8, stride int, pixels []uint8, from, to datasets.Size, part image.Rectangle) {
	across := taps(from.Width, to.Width, true)[part.Min.X:part.Max.X]
	down := taps(from.Height, to.Height, false)[part.Min.Y:part.Max.Y]
	var lines [2][]int32 // Old rows, resized along the row. A row stays while rows of the result need it.
	holds := [2]int32{-1, -1}
	line := func(row, other int32) []int32 {
		for k := range lines {
			if holds[k] == row {
				return lines[k]
			}
		}
		k := lo.Ternary(holds[0] == other, 1, 0)
		if lines[k] == nil {
			lines[k] = make([]int32, 3*len(across))
		}
		old, sums := pixels[int(row)*from.Width*3:][:from.Width*3], lines[k]
		for x, tap := range across {
			low, high := old[3*tap.low:][:3], old[3*tap.high:][:3]
			for c := range 3 {
				sums[3*x+c] = (int32(low[c])*tap.lowWeight + int32(high[c])*tap.highWeight) >> 4
			}
		}
		holds[k] = row
		return sums
	}
	for y, tap := range down {
		high := line(tap.high, tap.low)
		low := line(tap.low, tap.high)
		row := out[3*y*stride:][:len(low)]
		for i := range row {
			row[i] = uint8(min(((tap.lowWeight*low[i])>>16+(tap.highWeight*high[i])>>16+2)>>2, 255))
		}
	}
}

// nearest returns which sample of a line each sample of the resized line takes, as cv2.resize with INTER_NEAREST. This rounds down and does not go by the
// centres of samples, so that labels lie up to half a pixel beside the image; the recipes train with it.
func nearest(from, to int) []int {
	step := 1 / (float64(to) / float64(from))
	return lo.Times(to, func(i int) int { return min(int(float64(i)*step), from-1) })
}

// Normalize returns crops as an encoder takes them. Colours are scaled to [0, 1], less the mean and divided by the deviation of red, green and blue. Beyond the
// image they are 0, the mean colour: padding comes after normalization.
//
//   - pixels: [n, height, width, 3] in uint8, as in [SegmentationCrop].
//   - sizes: [n, 2] in int32, the height and width of the image in the top left corner of each crop.
//
// It returns [n, height, width, 3] in float32.
func Normalize(pixels, sizes *Node, mean, std [3]float64) *Node {
	g, shape := pixels.Graph(), pixels.Shape()
	sizes.AssertDims(shape.Dim(0), 2)
	x := encoder.StandardizeBy(DivScalar(ConvertDType(pixels, dtypes.Float32), 255), mean, std)
	inside := func(axis int) *Node {
		place := Iota(g, shapes.Make(dtypes.Int32, shape.Dimensions...), axis)
		return LessThan(place, BroadcastToShape(InsertAxes(Slice(sizes, AxisRange(), AxisElem(axis-1)), -1, -1), place.Shape()))
	}
	return Where(And(inside(1), inside(2)), x, ZerosLike(x))
}
