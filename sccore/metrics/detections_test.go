package metrics_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/rle"
)

const smallTruth = `{"images": [{"id": 5, "height": 8, "width": 10}], "categories": [{"id": 3}], "annotations": [
	{"id": 1, "image_id": 5, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0, "segmentation": [[1, 2, 4, 2, 4, 6, 1, 6]]}]}`

func TestReadDetectionsErrors(t *testing.T) {
	truth, good := readCOCO(t, smallTruth, `[{"image_id": 5, "category_id": 3, "bbox": [1, 2, 3, 4], "score": 1}]`)
	if len(good) != 1 || *good[0].Box != [4]float64{1, 2, 3, 4} || good[0].Mask != nil || good[0].Score != 1 {
		t.Errorf("%+v", good)
	}
	for _, test := range []struct{ file, want string }{
		{``, "d.json: ends too soon"},
		{`{}`, "d.json: want a list at byte 1"},
		{`[] 1`, "d.json: more follows the end"},
		{`[5]`, "d.json: detection 0: number, want an object"},
		{`[{"category_id": 3, "score": 1, "bbox": [1, 2, 3, 4]}]`, "d.json: detection 0: it has no image_id"},
		{`[{"image_id": 5, "score": 1, "bbox": [1, 2, 3, 4]}]`, "d.json: detection 0: it has no category_id"},
		{`[{"image_id": 5, "category_id": 3, "bbox": [1, 2, 3, 4]}]`, "d.json: detection 0: it has no score"},
		{`[{"image_id": 5, "category_id": 3, "score": 1}]`, "d.json: detection 0: it has neither bbox nor segmentation"},
		{`[{"image_id": 5, "category_id": 3, "score": NaN}]`, "d.json: detection 0: is not JSON at byte"},
		{`[{"image_id": 5, "category_id": 3, "score": 1, "bbox": [1, 2, 3]}]`, "d.json: detection 0: its bbox has 3 numbers"},
		{`[{"image_id": 5, "category_id": 3, "score": 1, "bbox": [1, 2, 3, -4]}]`, "d.json: detection 0: its box has 3×-4 pixels"},
		{`[{"image_id": "5", "category_id": 3, "score": 1, "bbox": [1, 2, 3, 4]}]`, "d.json: detection 0: truth.json has no image \"5\""},
		{`[{"image_id": 6, "category_id": 3, "score": 1, "bbox": [1, 2, 3, 4]}]`, "d.json: detection 0: truth.json has no image 6"},
		{`[{"image_id": 5, "category_id": 3, "score": 1, "segmentation": {"size": [8, 8], "counts": "x"}}]`, "d.json: detection 0: a mask of 8×8 pixels in an image of 10×8"},
		{`[{"image_id": 5, "category_id": 3, "score": 1, "segmentation": {"size": [8, 10], "counts": "x"}}]`, "d.json: detection 0: mask: character 0"},
		{`[{"image_id": 5, "category_id": 3, "score": 1, "bbox": [1, 2, 3, 4]}, {"image_id": "5"}]`, "d.json: detection 1: it has no category_id"},
	} {
		t.Run(test.want, func(t *testing.T) {
			_, err := metrics.ReadDetections(strings.NewReader(test.file), "d.json", truth)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "d.json")
	if err := os.WriteFile(file, []byte(`[]`), 0o666); err != nil {
		t.Fatal(err)
	}
	if got, err := metrics.OpenDetections(file, truth); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	for path, want := range map[string]string{file + "x": file + "x: no such file or directory", dir: dir + ": is not a regular file"} {
		if _, err := metrics.OpenDetections(path, truth); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestEvaluateCOCOErrors(t *testing.T) {
	truth, _ := readCOCO(t, smallTruth, `[]`)
	unmasked, _ := readCOCO(t, strings.Replace(smallTruth, "segmentation", "other", 1), `[]`)
	box := &[4]float64{1, 2, 3, 4}
	mask, err := rle.FromBox(8, 10, *box)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rle.FromBox(10, 8, *box)
	if err != nil {
		t.Fatal(err)
	}
	boxed, masked := metrics.Detection{Image: 5, Category: 3, Box: box}, metrics.Detection{Image: 5, Category: 3, Mask: &mask}
	inf := boxed
	inf.Score = 1
	for range 2000 {
		inf.Score *= 2
	}
	for _, test := range []struct {
		truth      *datasets.Instances
		kind       metrics.COCOKind
		detections []metrics.Detection
		want       string
	}{
		{truth, metrics.Boxes, []metrics.Detection{boxed, masked}, "detection 1: it has no box, and detection 0 has one"},
		{truth, metrics.Boxes, []metrics.Detection{masked, boxed}, "detection 1: it has no mask, and detection 0 has no box"},
		{truth, metrics.Boxes, []metrics.Detection{{Image: 6, Category: 3, Box: box}}, "detection 0: truth.json has no image 6"},
		{truth, metrics.Boxes, []metrics.Detection{inf}, "detection 0: its score is +Inf"},
		{truth, metrics.Masks, []metrics.Detection{{Image: 5, Category: 3, Mask: &other}}, "detection 0: a mask of 8×10 pixels in an image of 10×8"},
		{truth, metrics.Masks, []metrics.Detection{{Image: 5, Category: 3, Box: &[4]float64{0, 0, 1e12, 1}}}, "detection 0: polygon 0: its outline is too long"},
		{unmasked, metrics.Masks, []metrics.Detection{masked}, "truth.json: annotation 1: it has no segmentation"},
	} {
		t.Run(test.want, func(t *testing.T) {
			if _, err := metrics.EvaluateCOCO(test.truth, test.detections, test.kind); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestEvaluateCOCOWithoutDetections: a detector that finds nothing has an AP of 0 where there is something to find.
func TestEvaluateCOCOWithoutDetections(t *testing.T) {
	truth, none := readCOCO(t, smallTruth, `[]`)
	got, err := metrics.EvaluateCOCO(truth, none, metrics.Masks)
	if want := (metrics.COCOAP{APMedium: -1, APLarge: -1, ARMedium: -1, ARLarge: -1}); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
}

// FuzzReadDetections: any file is a list of detections that can be judged, or an error of one line.
func FuzzReadDetections(f *testing.F) {
	f.Add([]byte(`[{"image_id": 5, "category_id": 3, "bbox": [1, 2, 3, 4], "score": 0.5}, {"image_id": 5, "category_id": 3, "score": 1, "bbox": [0, 0, 9, 9]}]`))
	f.Add([]byte(`[{"image_id": 5, "category_id": 3, "score": 0.25, "segmentation": {"size": [8, 10], "counts": "08X2"}}]`))
	f.Add([]byte(`[{"image_id": 5, "category_id": 3, "bbox": [1, 2, 3, 4], "score": 0.5, "segmentation": [[1, 2, 4, 2, 4, 6, 1, 6]]}]`))
	truth, _ := readCOCO(f, smallTruth, `[]`)
	f.Fuzz(func(t *testing.T, file []byte) {
		detections, err := metrics.ReadDetections(strings.NewReader(string(file)), "d.json", truth)
		for _, kind := range []metrics.COCOKind{metrics.Boxes, metrics.Masks} {
			if err == nil {
				var result metrics.COCOAP
				result, err = metrics.EvaluateCOCO(truth, detections, kind)
				for _, v := range result.Numbers() {
					if v != -1 && !(v >= 0 && v <= 1) {
						t.Errorf("%v", result.Numbers())
					}
				}
			}
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000) {
			t.Errorf("%q is not one line", err)
		}
	})
}

// TestDetectionsAreWrittenAsTheyAreRead: what is written is read again, and the first detection decides as before.
func TestDetectionsAreWrittenAsTheyAreRead(t *testing.T) {
	truth, read := readCOCO(t, smallTruth, `[{"image_id": 5, "category_id": 3, "bbox": [1, 2.25, 3, 4], "score": 0.5, "segmentation": [[1, 2, 4, 2, 4, 6]]},
		{"image_id": 5, "category_id": 99, "bbox": [0, 0, 0, 0], "score": 0.25}, {"image_id": 5, "category_id": 3, "score": 1, "segmentation": {"size": [8, 10], "counts": [80]}}]`)
	for _, want := range [][]metrics.Detection{read, nil} {
		file := filepath.Join(t.TempDir(), "results.json")
		if err := metrics.WriteDetections(file, want); err != nil {
			t.Fatal(err)
		}
		got, err := metrics.OpenDetections(file, truth)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	if err := metrics.WriteDetections(filepath.Join(t.TempDir(), "nan.json"), []metrics.Detection{{Score: math.NaN()}}); err == nil {
		t.Error("a score that is no number is written")
	}
}

// TestOddFilesAreReadAsPycocotoolsReadsThem: testdata/oddcoco.py wrote the files and the APs.
func TestOddFilesAreReadAsPycocotoolsReadsThem(t *testing.T) {
	raw, err := os.ReadFile("testdata/oddcoco.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name         string
		Truth, Found json.RawMessage
		AP           float64
	}
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) < 12 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	zero := strings.NewReplacer(`"id": 5`, `"id": 0`, `"image_id": 5`, `"image_id": 0`, `"id": 3`, `"id": 0`, `"category_id": 3`, `"category_id": 0`)
	truth, _ := readCOCO(t, zero.Replace(smallTruth), `[]`)
	if _, err := metrics.ReadDetections(strings.NewReader(`[{"image_id": "foo", "category_id": 0, "score": 1, "bbox": [1, 2, 3, 4]}]`), "d.json", truth); err == nil {
		t.Error("an unknown text is the image 0")
	}
	found, err := metrics.ReadDetections(strings.NewReader(`[{"image_id": 0, "category_id": "3", "score": 1, "bbox": [1, 2, 3, 4]}]`), "d.json", truth)
	if err != nil || truth.HasCategory(found[0].Category) {
		t.Errorf("an unknown text is a category: %v, %v", found, err)
	}
	for _, c := range cases {
		truth, err := datasets.ReadInstances(bytes.NewReader(c.Truth), "truth.json")
		if err != nil || truth.SkippedCount > 0 {
			t.Errorf("%s: %v, skipped %v", c.Name, err, truth.Skipped)
			continue
		}
		found, err := metrics.ReadDetections(bytes.NewReader(c.Found), "found.json", truth)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if got, err := metrics.EvaluateCOCO(truth, found, metrics.Boxes); err != nil || !(math.Abs(got.AP-c.AP) <= 1e-12) {
			t.Errorf("%s: AP %.13f, pycocotools has %.13f, %v", c.Name, got.AP, c.AP, err)
		}
	}
}
