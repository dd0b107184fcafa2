package metrics_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testvalues"
	"github.com/semcon/semcon/sccore/metrics"
)

// davisCase is a video with the results of NumPy and OpenCV; testdata/jf.py writes the file.
type davisCase struct {
	Height, Width    int
	Truth, Predicted string
	Objects          []metrics.JF
}

func readDAVISCases(t *testing.T) (cases []davisCase) {
	t.Helper()
	raw, err := os.ReadFile("testdata/jf.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func (c davisCase) masks(t *testing.T, packed string) [][]uint8 {
	t.Helper()
	return testvalues.Unpacked(t, packed, c.Height*c.Width)
}

func TestEvaluateJFGolden(t *testing.T) {
	cases := readDAVISCases(t)
	if len(cases) != 6 {
		t.Fatalf("%d cases", len(cases))
	}
	for i, c := range cases {
		got, err := metrics.EvaluateJF(c.masks(t, c.Truth), c.masks(t, c.Predicted), c.Height, c.Width, len(c.Objects))
		if err != nil {
			t.Fatal(err)
		}
		for o, want := range c.Objects {
			for name, pair := range map[string][2]metrics.JFMeasure{"J": {got[o].J, want.J}, "F": {got[o].F, want.F}} {
				off := func(a, b float64) bool { return math.Abs(a-b) > 1e-12 }
				if a, b := pair[0], pair[1]; off(a.Mean, b.Mean) || off(a.Recall, b.Recall) || off(a.Decay, b.Decay) {
					t.Errorf("video %d, object %d: %s is %+v, the DAVIS definitions give %+v", i, o+1, name, a, b)
				}
			}
		}
	}
}

func TestEvaluateJFBounds(t *testing.T) {
	c := readDAVISCases(t)[2]
	truth := c.masks(t, c.Truth)
	empty := make([][]uint8, len(truth))
	for i := range empty {
		empty[i] = make([]uint8, len(truth[i]))
	}
	measure := func(truth, predicted [][]uint8, objects int) metrics.JF {
		all, err := metrics.EvaluateJF(truth, predicted, c.Height, c.Width, objects)
		if err != nil {
			t.Fatal(err)
		}
		return metrics.MeanJF(all)
	}
	if got := measure(truth, truth, 3); !(math.Abs(got.Mean()-1) <= 1e-12) || !(math.Abs(got.J.Recall-1) <= 1e-12) || !(math.Abs(got.F.Decay) <= 1e-12) {
		t.Errorf("the truth itself scores %+v", got)
	}
	if got := measure(empty, empty, 2); got.Mean() != 1 {
		t.Errorf("empty predictions of an absent object score %+v", got)
	}
	// The object in front is absent in one of the six frames, the only one where an empty prediction is right.
	if got := measure(truth, empty, 1); !(math.Abs(got.J.Mean-1.0/6) <= 1e-12) || !(math.Abs(got.F.Mean-1.0/6) <= 1e-12) {
		t.Errorf("empty predictions score %+v", got)
	}
	// Labels beyond the objects of the first mask count as background, as in the DAVIS code.
	strange := make([][]uint8, len(truth))
	for i := range strange {
		strange[i] = slices.Repeat([]uint8{9}, len(truth[i]))
	}
	if got, want := measure(truth, strange, 3), measure(truth, empty, 3); got != want {
		t.Errorf("labels beyond the objects score %+v, empty predictions %+v", got, want)
	}
	if got := metrics.MeanJF(nil); got != (metrics.JF{}) {
		t.Errorf("the mean over no objects is %+v", got)
	}
}

func TestEvaluateJFBadInput(t *testing.T) {
	masks := func(n, size int) (out [][]uint8) {
		for range n {
			out = append(out, make([]uint8, size))
		}
		return out
	}
	for want, err := range map[string]error{
		"4 predicted masks for 5":         second(metrics.EvaluateJF(masks(5, 6), masks(4, 6), 2, 3, 1)),
		"2 frames":                        second(metrics.EvaluateJF(masks(2, 6), masks(2, 6), 2, 3, 1)),
		"0 objects":                       second(metrics.EvaluateJF(masks(3, 6), masks(3, 6), 2, 3, 0)),
		"frame 0: masks of 6 and 8 pixel": second(metrics.EvaluateJF(masks(3, 6), masks(3, 8), 2, 3, 1)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func ExampleEvaluateJF() {
	// A square of 2×2 in a frame of 4×4, predicted one column too far to the right in the frame that counts.
	truth := []uint8{0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0}
	found := []uint8{0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0}
	objects, err := metrics.EvaluateJF([][]uint8{truth, truth, truth}, [][]uint8{truth, found, truth}, 4, 4, 1)
	fmt.Printf("J %.2f, F %.2f, J&F %.2f, %v\n", objects[0].J.Mean, objects[0].F.Mean, objects[0].Mean(), err)
	// Output: J 0.33, F 1.00, J&F 0.67, <nil>
}
