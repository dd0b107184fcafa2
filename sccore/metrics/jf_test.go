package metrics_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/metrics"
)

// davisCase is a video with what NumPy and OpenCV make of it; testdata/jf.py made the file.
type davisCase struct {
	Height, Width    int
	Truth, Predicted string
	Objects          []metrics.DAVIS
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

func (c davisCase) masks(t *testing.T, packed string) (masks [][]uint8) {
	t.Helper()
	compressed, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := zlib.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	labels, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(slices.Chunk(labels, c.Height*c.Width))
}

func TestMeasureDAVISGolden(t *testing.T) {
	cases := readDAVISCases(t)
	if len(cases) != 6 {
		t.Fatalf("%d cases", len(cases))
	}
	for i, c := range cases {
		got, err := metrics.MeasureDAVIS(c.masks(t, c.Truth), c.masks(t, c.Predicted), c.Height, c.Width, len(c.Objects))
		if err != nil {
			t.Fatal(err)
		}
		for o, want := range c.Objects {
			for name, pair := range map[string][2]metrics.DAVISMeasure{"J": {got[o].J, want.J}, "F": {got[o].F, want.F}} {
				off := func(a, b float64) bool { return math.Abs(a-b) > 1e-12 }
				if a, b := pair[0], pair[1]; off(a.Mean, b.Mean) || off(a.Recall, b.Recall) || off(a.Decay, b.Decay) {
					t.Errorf("video %d, object %d: %s is %+v, the DAVIS definitions give %+v", i, o+1, name, a, b)
				}
			}
		}
	}
}

func TestMeasureDAVISBounds(t *testing.T) {
	c := readDAVISCases(t)[2]
	truth := c.masks(t, c.Truth)
	empty := make([][]uint8, len(truth))
	for i := range empty {
		empty[i] = make([]uint8, len(truth[i]))
	}
	measure := func(truth, predicted [][]uint8, objects int) metrics.DAVIS {
		all, err := metrics.MeasureDAVIS(truth, predicted, c.Height, c.Width, objects)
		if err != nil {
			t.Fatal(err)
		}
		return metrics.MeanDAVIS(all)
	}
	if got := measure(truth, truth, 3); math.Abs(got.JF()-1) > 1e-12 || math.Abs(got.J.Recall-1) > 1e-12 || math.Abs(got.F.Decay) > 1e-12 {
		t.Errorf("the truth itself measures %+v", got)
	}
	if got := measure(empty, empty, 2); got.JF() != 1 {
		t.Errorf("nothing, found nowhere, measures %+v", got)
	}
	// The object in front is gone in one of the six frames, and there alone nothing is right.
	if got := measure(truth, empty, 1); math.Abs(got.J.Mean-1.0/6) > 1e-12 || math.Abs(got.F.Mean-1.0/6) > 1e-12 {
		t.Errorf("nothing instead of the object measures %+v", got)
	}
	// What is found beyond the objects of the first mask is background, as in the DAVIS code.
	strange := make([][]uint8, len(truth))
	for i := range strange {
		strange[i] = slices.Repeat([]uint8{9}, len(truth[i]))
	}
	if got, want := measure(truth, strange, 3), measure(truth, empty, 3); got != want {
		t.Errorf("objects that there are not measure %+v, nothing %+v", got, want)
	}
	if got := metrics.MeanDAVIS(nil); got != (metrics.DAVIS{}) {
		t.Errorf("the mean of no object is %+v", got)
	}
}

func TestMeasureDAVISBadInput(t *testing.T) {
	masks := func(n, size int) (out [][]uint8) {
		for range n {
			out = append(out, make([]uint8, size))
		}
		return out
	}
	for want, err := range map[string]error{
		"4 predicted masks for 5":         second(metrics.MeasureDAVIS(masks(5, 6), masks(4, 6), 2, 3, 1)),
		"2 frames":                        second(metrics.MeasureDAVIS(masks(2, 6), masks(2, 6), 2, 3, 1)),
		"0 objects":                       second(metrics.MeasureDAVIS(masks(3, 6), masks(3, 6), 2, 3, 0)),
		"frame 0: masks of 6 and 8 pixel": second(metrics.MeasureDAVIS(masks(3, 6), masks(3, 8), 2, 3, 1)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func ExampleMeasureDAVIS() {
	// A square of 2×2 in a frame of 4×4, found one column too far to the right in the frame that counts.
	truth := []uint8{0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0}
	found := []uint8{0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0}
	objects, err := metrics.MeasureDAVIS([][]uint8{truth, truth, truth}, [][]uint8{truth, found, truth}, 4, 4, 1)
	fmt.Printf("J %.2f, F %.2f, J&F %.2f, %v\n", objects[0].J.Mean, objects[0].F.Mean, objects[0].JF(), err)
	// Output: J 0.33, F 1.00, J&F 0.67, <nil>
}
