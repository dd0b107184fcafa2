package metrics_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/metrics"
)

// segmentationGolden is the result of torchmetrics; testdata/miou.py writes the file.
type segmentationGolden struct {
	Classes           int
	Truth, Prediction []int
	IoU               []float64
	MIoU, Accuracy    float64
}

func readSegmentationGolden(t *testing.T) (golden segmentationGolden) {
	t.Helper()
	raw, err := os.ReadFile("testdata/miou.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	return golden
}

func labels(values []int) (out []uint8) {
	for _, v := range values {
		out = append(out, uint8(v))
	}
	return out
}

func TestConfusionGolden(t *testing.T) {
	golden := readSegmentationGolden(t)
	truth, prediction := labels(golden.Truth), labels(golden.Prediction)
	confusion := metrics.NewConfusion(golden.Classes)
	const pixels = 6 * 8
	for first := 0; first < len(truth); first += pixels {
		if err := confusion.Add(truth[first:first+pixels], prediction[first:first+pixels]); err != nil {
			t.Fatal(err)
		}
	}
	got := confusion.Segmentation()
	if !(math.Abs(got.MIoU-100*golden.MIoU) <= 1e-4) || !(math.Abs(got.Accuracy-100*golden.Accuracy) <= 1e-9) {
		t.Errorf("mIoU %.5f and accuracy %.5f, torchmetrics %.5f and %.5f", got.MIoU, got.Accuracy, 100*golden.MIoU, 100*golden.Accuracy)
	}
	for class, want := range golden.IoU {
		if class == 6 { // It occurs nowhere. torchmetrics reports 0 and leaves it out of the mean, as we do.
			if !math.IsNaN(got.IoU[class]) {
				t.Errorf("class %d has IoU %g", class, got.IoU[class])
			}
		} else if !(math.Abs(got.IoU[class]-100*want) <= 1e-4) {
			t.Errorf("class %d: IoU %.5f, torchmetrics %.5f", class, got.IoU[class], 100*want)
		}
	}
}

func TestConfusionRefusesAndStaysUnchanged(t *testing.T) {
	for _, test := range []struct{ truth, prediction []uint8 }{
		{[]uint8{0, 1}, []uint8{0}},
		{[]uint8{0, 3}, []uint8{0, 0}},
		{[]uint8{0, 1}, []uint8{0, 3}},
		{[]uint8{0, 1}, []uint8{0, datasets.Ignore}},
	} {
		confusion := metrics.NewConfusion(3)
		if err := confusion.Add(test.truth, test.prediction); err == nil {
			t.Errorf("%v predicted as %v gives no error", test.truth, test.prediction)
		}
		if confusion.At(0, 0) != 0 || !math.IsNaN(confusion.Segmentation().MIoU) {
			t.Errorf("%v predicted as %v was counted", test.truth, test.prediction)
		}
	}
	if err := metrics.NewConfusion(3).Add([]uint8{datasets.Ignore}, []uint8{200}); err != nil {
		t.Errorf("an ignored pixel: %v", err)
	}
}

func ExampleConfusion() {
	confusion := metrics.NewConfusion(3)
	// Two pixels of class 0, one of them predicted as 1; one pixel of class 1, predicted correctly; class 2 does not occur.
	if err := confusion.Add([]uint8{0, 0, 1, datasets.Ignore}, []uint8{0, 1, 1, 2}); err != nil {
		panic(err)
	}
	s := confusion.Segmentation()
	fmt.Printf("IoU %.0f, mIoU %.0f %%, accuracy %.1f %%\n", s.IoU, s.MIoU, s.Accuracy)
	// Output: IoU [50 50 NaN], mIoU 50 %, accuracy 66.7 %
}

// TestCommonest: 6 of 10 pixels have class 1, the answer everywhere; class 3 does not occur.
func TestCommonest(t *testing.T) {
	c := metrics.NewConfusion(4)
	if err := c.Add([]uint8{0, 0, 0, 1, 1, 1, 1, 1, 1, 2, datasets.Ignore}, make([]uint8, 11)); err != nil {
		t.Fatal(err)
	}
	class, everywhere := c.Segmentation().Commonest()
	if class != 1 || !(math.Abs(everywhere.MIoU-20) <= 1e-9) || !(math.Abs(everywhere.Accuracy-60) <= 1e-9) {
		t.Errorf("class %d, mIoU %g and accuracy %g, want 1, 20 and 60", class, everywhere.MIoU, everywhere.Accuracy)
	}
}
