// Package metrics measures features and predictions. Features, predictions and their ground truth go in, and numbers come out: mean IoU ([Confusion]),
// region and boundary measures of videos ([EvaluateJF]), AP and AR of detections ([EvaluateCOCO]), accuracy ([TopKAccuracy]), and how much of their space
// features use ([EffectiveRank], [Spread], [ClassSpread]). Nothing here trains or knows a protocol: that is package evaluation.
//
// The next metric gets a file here, or stands with its kind, and is compared in testdata with the code that the field uses.
package metrics

import (
	"fmt"
	"math"
	"slices"

	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
)

// Confusion counts the pixels of a segmentation by true and predicted class, over any number of images.
type Confusion struct {
	classes int
	counts  []int64 // [truth][prediction]
}

// NewConfusion returns an empty count for classes 0 to classes−1. It panics unless there are 1 to 255 classes.
func NewConfusion(classes int) *Confusion {
	if classes < 1 || classes > int(datasets.Ignore) {
		panic(fmt.Sprintf("metrics: a confusion matrix of %d classes, want 1 to %d", classes, datasets.Ignore))
	}
	return &Confusion{classes: classes, counts: make([]int64, classes*classes)}
}

// Add counts the pixels of one or more images. Pixels whose truth is [datasets.Ignore] are not counted, whatever the prediction. Different lengths
// and classes out of range are errors, and leave the count unchanged.
func (c *Confusion) Add(truth, prediction []uint8) error {
	if len(truth) != len(prediction) {
		return fmt.Errorf("segmentation: predictions for %d pixels, truth for %d", len(prediction), len(truth))
	}
	for i, t := range truth {
		if p := prediction[i]; t != datasets.Ignore && (int(t) >= c.classes || int(p) >= c.classes) {
			return fmt.Errorf("segmentation: pixel %d has class %d, predicted as %d, want 0 to %d", i, t, p, c.classes-1)
		}
	}
	for i, t := range truth {
		if t != datasets.Ignore {
			c.counts[int(t)*c.classes+int(prediction[i])]++
		}
	}
	return nil
}

// AddImage is [Confusion.Add] of one image. It returns the image's part in each class that occurs in it: the class, the pixels of it that are predicted as it,
// and those that are either.
func (c *Confusion) AddImage(truth, prediction []uint8) (counts [][3]int, err error) {
	one := NewConfusion(c.classes)
	if err := one.Add(truth, prediction); err != nil {
		return nil, err
	}
	for class := range c.classes {
		both := one.At(class, class)
		either := -both
		for other := range c.classes {
			c.AddCount(class, other, one.At(class, other))
			either += one.At(class, other) + one.At(other, class)
		}
		if either > 0 {
			counts = append(counts, [3]int{class, int(both), int(either)})
		}
	}
	return counts, nil
}

// AddCount adds pixels of class truth that are predicted as class prediction. It panics if a class is out of range.
func (c *Confusion) AddCount(truth, prediction int, pixels int64) {
	if truth < 0 || truth >= c.classes || prediction < 0 || prediction >= c.classes {
		panic(fmt.Sprintf("metrics: classes %d and %d of %d", truth, prediction, c.classes))
	}
	c.counts[truth*c.classes+prediction] += pixels
}

// At is the number of pixels of class truth that were predicted as class prediction.
func (c *Confusion) At(truth, prediction int) int64 { return c.counts[truth*c.classes+prediction] }

// Segmentation is the result of a segmentation, in percent.
type Segmentation struct {
	// MIoU is the mean of the classes' IoU. A class that occurs in neither truth nor prediction of the whole set has no IoU and is left out, as in
	// mmseg and in torchmetrics' MulticlassJaccardIndex; a class that occurs in only one of them counts as 0. Pixels are pooled over the whole set,
	// not averaged by image, so an image may lack a class.
	MIoU float64 `json:"miou"`
	// Accuracy is the share of pixels predicted correctly.
	Accuracy float64 `json:"accuracy"`
	// IoU has, for each class, the pixels of it that are predicted as it over those that are either; NaN for a class that is left out.
	IoU []float64 `json:"-"`
	// Pixels has the annotated pixels of each class.
	Pixels []int64 `json:"-"`
	// ByImage has what [Confusion.AddImage] returned for each image; nil if images were not counted one by one.
	ByImage [][][3]int `json:"-"`
}

// Commonest returns the class of most pixels of the truth, the first of several, and the segmentation that answers it everywhere.
func (s Segmentation) Commonest() (class int, everywhere Segmentation) {
	class = slices.Index(s.Pixels, slices.Max(s.Pixels))
	constant := NewConfusion(len(s.Pixels))
	for truth, pixels := range s.Pixels {
		constant.AddCount(truth, class, pixels)
	}
	return class, constant.Segmentation()
}

// Segmentation computes the result from the counts. Everything is NaN without pixels.
func (c *Confusion) Segmentation() Segmentation {
	var right, all int64
	s := Segmentation{IoU: make([]float64, c.classes), Pixels: make([]int64, c.classes)}
	sum, occurring := 0.0, 0
	for class := range c.classes {
		var truth, prediction int64
		for other := range c.classes {
			truth += c.At(class, other)
			prediction += c.At(other, class)
		}
		both := c.At(class, class)
		right, all, s.Pixels[class] = right+both, all+truth, truth
		s.IoU[class] = math.NaN()
		if either := truth + prediction - both; either > 0 {
			s.IoU[class] = 100 * float64(both) / float64(either)
			sum += s.IoU[class]
			occurring++
		}
	}
	s.MIoU = sum / float64(occurring)
	s.Accuracy = 100 * float64(right) / float64(all)
	return s
}

// Recall is the mean over classes of the share of their pixels that are predicted as them, in percent: the balanced accuracy of scikit-learn. Classes
// without pixels are left out; without any pixels it is NaN.
func (c *Confusion) Recall() float64 {
	sum, occurring := 0.0, 0
	for class, pixels := range c.Segmentation().Pixels {
		if pixels > 0 {
			sum += 100 * float64(c.At(class, class)) / float64(pixels)
			occurring++
		}
	}
	return sum / float64(occurring)
}

// Assign returns the one-to-one matching of rows to columns with the largest sum of values, [n, n], as the column of each row. It is the Hungarian algorithm
// with potentials, in O(n³).
func Assign(values []float64, n int) []int {
	// Rows are added one after the other, each by the shortest augmenting path; columns and rows count from 1, and 0 stands for none.
	rowOf := make([]int, n+1)
	u, v := make([]float64, n+1), make([]float64, n+1)
	for row := 1; row <= n; row++ {
		rowOf[0] = row
		least, before, used := make([]float64, n+1), make([]int, n+1), make([]bool, n+1)
		for j := range least {
			least[j] = math.Inf(1)
		}
		column := 0
		for rowOf[column] != 0 {
			used[column] = true
			i, delta, next := rowOf[column], math.Inf(1), 0
			for j := 1; j <= n; j++ {
				if used[j] {
					continue
				}
				if cost := -values[(i-1)*n+j-1] - u[i] - v[j]; cost < least[j] {
					least[j], before[j] = cost, column
				}
				if least[j] < delta {
					delta, next = least[j], j
				}
			}
			for j := range used {
				if used[j] {
					u[rowOf[j]] += delta
					v[j] -= delta
				} else {
					least[j] -= delta
				}
			}
			column = next
		}
		for column != 0 {
			rowOf[column] = rowOf[before[column]]
			column = before[column]
		}
	}
	columnOf := make([]int, n)
	for column := 1; column <= n; column++ {
		columnOf[rowOf[column]-1] = column - 1
	}
	return columnOf
}

// JF says how well the masks of one object agree with the ground truth, as shares: region J and boundary F of DAVIS (Perazzi et al. 2016; Pont-Tuset
// et al. 2017). It may also be the mean over the objects of many videos.
type JF struct {
	J, F JFMeasure
}

// Mean is J&F, the mean of the two means.
func (d JF) Mean() float64 { return (d.J.Mean + d.F.Mean) / 2 }

// JFMeasure summarises a measure over the frames of a video, as the DAVIS-2017 code does.
type JFMeasure struct {
	Mean   float64 // Over frames.
	Recall float64 // The share of frames above 0.5.
	Decay  float64 // The mean over the first quarter of the frames minus that over the last; neighbouring quarters share a frame.
}

// EvaluateJF compares the predicted masks of a video with the true ones, all [height·width] with 0 for the background, and returns one result for
// each object from 1 to objects. As in the semi-supervised task of the DAVIS code, the first frame, which is given, and the last do not count; a
// video needs at least three frames. An object that is in neither mask of a frame scores 1 there.
func EvaluateJF(truth, predicted [][]uint8, height, width, objects int) ([]JF, error) {
	switch {
	case len(truth) != len(predicted):
		return nil, fmt.Errorf("J&F: %d predicted masks for %d true ones", len(predicted), len(truth))
	case len(truth) < 3:
		return nil, fmt.Errorf("J&F: %d frames, want at least 3: the first and the last do not count", len(truth))
	case objects < 1 || objects > 254:
		return nil, fmt.Errorf("J&F: %d objects, want 1 to 254", objects)
	}
	for i := range truth {
		if len(truth[i]) != height*width || len(predicted[i]) != height*width {
			return nil, fmt.Errorf("J&F: frame %d: masks of %d and %d pixels are not %d×%d", i, len(truth[i]), len(predicted[i]), width, height)
		}
	}
	var out []JF
	for object := 1; object <= objects; object++ {
		var regions, boundaries []float64
		for i := 1; i < len(truth)-1; i++ {
			t, p := maskOf(truth[i], object), maskOf(predicted[i], object)
			regions = append(regions, region(t, p))
			boundaries = append(boundaries, boundaryMeasure(t, p, height, width))
		}
		out = append(out, JF{summarise(regions), summarise(boundaries)})
	}
	return out, nil
}

// MeanJF is the mean over the objects of all videos; 0 without objects.
func MeanJF(objects []JF) (mean JF) {
	for _, o := range objects {
		for _, m := range []struct{ to, from *JFMeasure }{{&mean.J, &o.J}, {&mean.F, &o.F}} {
			m.to.Mean += m.from.Mean / float64(len(objects))
			m.to.Recall += m.from.Recall / float64(len(objects))
			m.to.Decay += m.from.Decay / float64(len(objects))
		}
	}
	return mean
}

func maskOf(labels []uint8, object int) []bool {
	return lo.Map(labels, func(label uint8, _ int) bool { return int(label) == object })
}

// region is J, the intersection over the union, 1 where both masks are empty.
func region(truth, predicted []bool) float64 {
	both := countBoth(truth, predicted)
	either := countTrue(truth) + countTrue(predicted) - both
	return lo.Ternary(either > 0, float64(both)/float64(either), 1)
}

// boundaryMeasure is F, the harmonic mean of two shares: of the predicted outline that lies near the true one, and of the true outline that lies near
// the predicted one. Near is within 0.008 of the frame's diagonal, rounded up to pixels.
func boundaryMeasure(truth, predicted []bool, height, width int) float64 {
	radius := int(math.Ceil(0.008 * math.Hypot(float64(height), float64(width))))
	outlineT, outlineP := outline(truth, height, width), outline(predicted, height, width)
	precision, recall := 1.0, 1.0
	switch countT, countP := countTrue(outlineT), countTrue(outlineP); {
	case countP == 0 && countT == 0:
	case countP == 0:
		recall = 0
	case countT == 0:
		precision = 0
	default:
		precision = float64(countBoth(outlineP, dilated(outlineT, height, width, radius))) / float64(countP)
		recall = float64(countBoth(outlineT, dilated(outlineP, height, width, radius))) / float64(countT)
	}
	return lo.Ternary(precision+recall > 0, 2*precision*recall/(precision+recall), 0)
}

// outline marks the pixels that differ from the one to the right, the one below, or the one diagonally below; the last row and column compare only
// with the neighbour that they have. (seg2bmap of the Berkeley benchmark, which DAVIS uses.)
func outline(mask []bool, height, width int) []bool {
	out := make([]bool, len(mask))
	for y := range height {
		for x := range width {
			p := y*width + x
			right, below := x+1 < width, y+1 < height
			out[p] = right && mask[p+1] != mask[p] || below && mask[p+width] != mask[p] || right && below && mask[p+width+1] != mask[p]
		}
	}
	return out
}

// dilated marks the pixels within a radius of the marked ones.
func dilated(marked []bool, height, width, radius int) []bool {
	half := make([]int, radius+1) // Half the width of the disk, by rows from its centre.
	for dy := range half {
		for (half[dy]+1)*(half[dy]+1)+dy*dy <= radius*radius {
			half[dy]++
		}
	}
	out := make([]bool, len(marked))
	for p, is := range marked {
		if !is {
			continue
		}
		x, y := p%width, p/width
		for row := max(y-radius, 0); row <= min(y+radius, height-1); row++ {
			reach := half[max(row-y, y-row)]
			for column := max(x-reach, 0); column <= min(x+reach, width-1); column++ {
				out[row*width+column] = true
			}
		}
	}
	return out
}

func countTrue(marked []bool) int { return countBoth(marked, marked) }

func countBoth(a, b []bool) (count int) {
	for p := range a {
		if a[p] && b[p] {
			count++
		}
	}
	return count
}

// summarise computes the three numbers from a measure's values by frame. Quarters begin and end at frames 1 + i·(n − 1)/4, rounded. (The DAVIS code
// keeps frame numbers in 8 bits and goes wrong beyond 256 frames, which no video of DAVIS has.)
func summarise(values []float64) (m JFMeasure) {
	end := func(quarter int) int {
		return int(math.RoundToEven(1+float64(quarter*(len(values)-1))/4+1e-10)) - 1
	}
	above := lo.CountBy(values, func(value float64) bool { return value > 0.5 })
	return JFMeasure{
		Mean:   lo.Mean(values),
		Recall: float64(above) / float64(len(values)),
		Decay:  lo.Mean(values[end(0):end(1)+1]) - lo.Mean(values[end(3):end(4)+1]),
	}
}
