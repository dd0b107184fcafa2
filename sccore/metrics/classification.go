// Package metrics measures features and predictions. Features, predictions and their ground truth go in, and numbers come out: mean IoU
// ([Confusion]), region and boundary measures of videos ([EvaluateJF]), AP and AR of detections ([EvaluateCOCO]), accuracy ([TopKAccuracy]), and how much of their space features
// use ([EffectiveRank], [Spread], [ClassSpread]). Nothing here trains or knows a protocol: that is package evaluation.
//
// The next metric gets a file here, named for it, and is compared in testdata with the code that the field uses.
package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
)

// TopKAccuracy is the percentage of labels among the first k classes of their ranking; 0 if there are none.
func TopKAccuracy(ranked [][]int32, labels []int32, k int) float64 {
	if len(ranked) != len(labels) || len(labels) == 0 {
		return 0
	}
	right := 0
	for i, classes := range ranked {
		if slices.Contains(classes[:min(k, len(classes))], labels[i]) {
			right++
		}
	}
	return 100 * float64(right) / float64(len(labels))
}

// PrecisionAtTop is the share of positives, in percent, among the given shares of highest scores: 0.01 takes the top percent, but at least one score.
// Equal scores at the border count by the share of positives among them, so that the order of the input means nothing. It is NaN without scores.
func PrecisionAtTop(scores []float64, positive []bool, shares ...float64) (precisions []float64) {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	for _, share := range shares {
		top := max(1, int(math.Round(share*float64(len(order)))))
		found := 0.0
		for begin := 0; begin < min(top, len(order)); {
			end, positives := begin, 0
			for ; end < len(order) && scores[order[end]] == scores[order[begin]]; end++ {
				if positive[order[end]] {
					positives++
				}
			}
			end = max(end, begin+1) // NaN equals nothing.
			found += float64(positives) * float64(min(end, top)-begin) / float64(end-begin)
			begin = end
		}
		if len(order) == 0 {
			found = math.NaN()
		}
		precisions = append(precisions, 100*found/float64(top))
	}
	return precisions
}

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
}

// Commonest returns the class of most pixels of the truth, the first of several, and the segmentation that answers it everywhere.
func (s Segmentation) Commonest() (class int, everywhere Segmentation) {
	for other, pixels := range s.Pixels {
		if pixels > s.Pixels[class] {
			class = other
		}
	}
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
func Assign(values []int64, n int) []int {
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
				if cost := -float64(values[(i-1)*n+j-1]) - u[i] - v[j]; cost < least[j] {
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
