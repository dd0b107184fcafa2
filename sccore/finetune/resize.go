package finetune

import (
	"image"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/settings"
)

// Scale says how large images become: as large as they can with their aspect kept, their longer side at most Long and their shorter side at most Short.
type Scale struct {
	Long  int `json:"long" range:"[1,2^14]"`  // Longest side of a resized image in pixels.
	Short int `json:"short" range:"[1,2^14]"` // Its shorter side in pixels, at most Long.
}

// maxScale bounds the sides, as the ratio of [SegmentationTransform] does, so that a wrong setting is an error and not out of memory.
const maxScale = 1 << 14

// Rules returns an error if the sides are the wrong way round; see [settings.Check].
func (s Scale) Rules() error {
	return settings.Between("short", s.Short, 1, s.Long)
}

// roundUp returns the least multiple of by that is at least a side.
func roundUp(side, by int) int { return (side + by - 1) / by * by }

// times is the scale times a ratio, rounded down.
func (s Scale) times(ratio float64) Scale {
	return Scale{max(1, int(float64(s.Long)*ratio)), max(1, int(float64(s.Short)*ratio))}
}

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
		share := at - float32(low)
		if alongRow && (low < 0 || low >= last) {
			share = 0
		}
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
		k := 0
		if holds[0] == other {
			k = 1
		}
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
	all := make([]int, to)
	for i := range all {
		all[i] = min(int(float64(i)*step), from-1)
	}
	return all
}

// Normalize returns crops as an encoder takes them. Colours are scaled to [0, 1], less the mean and divided by the deviation of red, green and blue. Beyond the
// image they are 0, the mean colour: padding comes after normalization.
//
//   - pixels: [n, height, width, 3] in uint8, as in [SegmentationBatch].
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
