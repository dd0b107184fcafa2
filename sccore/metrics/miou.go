package metrics

import (
	"fmt"
	"math"

	"github.com/semcon/semcon/sccore/datasets"
)

// Confusion counts the pixels of a segmentation by true and predicted class, over any number of images.
type Confusion struct {
	classes int
	counts  []int64 // [truth][prediction]
}

// NewConfusion returns an empty count for classes 0 to classes−1, of which there are from 1 to 255. It panics on any other number.
func NewConfusion(classes int) *Confusion {
	if classes < 1 || classes > int(datasets.Ignore) {
		panic(fmt.Sprintf("metrics: a confusion matrix of %d classes, want 1 to %d", classes, datasets.Ignore))
	}
	return &Confusion{classes: classes, counts: make([]int64, classes*classes)}
}

// Add counts the pixels of one or more images. Pixels whose truth is [datasets.Ignore] count nowhere, whatever the prediction. Another number of
// predictions than of pixels is an error, and so is a class that there is not; the count is unchanged then.
func (c *Confusion) Add(truth, prediction []uint8) error {
	if len(truth) != len(prediction) {
		return fmt.Errorf("segmentation: predictions of %d pixels for %d", len(prediction), len(truth))
	}
	for i, t := range truth {
		if p := prediction[i]; t != datasets.Ignore && (int(t) >= c.classes || int(p) >= c.classes) {
			return fmt.Errorf("segmentation: pixel %d is of class %d and predicted as %d, there are classes 0 to %d", i, t, p, c.classes-1)
		}
	}
	for i, t := range truth {
		if t != datasets.Ignore {
			c.counts[int(t)*c.classes+int(prediction[i])]++
		}
	}
	return nil
}

// At is the number of pixels of class truth that were predicted as class prediction.
func (c *Confusion) At(truth, prediction int) int64 { return c.counts[truth*c.classes+prediction] }

// Segmentation is what a segmentation is judged by, in percent.
type Segmentation struct {
	// MIoU is the mean over classes of the IoU. A class that occurs in neither truth nor prediction of the whole set has no IoU and is left
	// out, as in mmseg and in torchmetrics' MulticlassJaccardIndex; a class that only one of them has counts with 0. It is over the set's pixels together
	// and no mean over images, so a class may well be absent from an image.
	MIoU float64 `json:"miou"`
	// Accuracy is the share of pixels predicted right.
	Accuracy float64 `json:"accuracy"`
	// IoU of each class: the pixels that are of it and predicted as it, over those that are either. NaN for a class that is left out.
	IoU []float64 `json:"-"`
}

// Segmentation sums the count up. Without pixels all is NaN.
func (c *Confusion) Segmentation() Segmentation {
	var right, all int64
	s := Segmentation{IoU: make([]float64, c.classes)}
	sum, occurring := 0.0, 0
	for class := range c.classes {
		var truth, prediction int64
		for other := range c.classes {
			truth += c.At(class, other)
			prediction += c.At(other, class)
		}
		both := c.At(class, class)
		right, all = right+both, all+truth
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
