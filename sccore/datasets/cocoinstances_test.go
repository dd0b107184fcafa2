package datasets

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// instancesFile is a file of one image of 10×8 pixels, one category and the given annotations.
func instancesFile(annotations ...string) string {
	return `{"info": {"year": 2017, "odd": [{}, []]},
		"annotations": [` + strings.Join(annotations, ",") + `],
		"images": [{"id": 5, "file_name": "five.jpg", "height": 8, "width": 10, "license": 3}],
		"categories": [{"id": 3, "name": "cat", "supercategory": "animal"}]}`
}

func TestReadInstances(t *testing.T) {
	in, err := ReadInstances(strings.NewReader(instancesFile(
		`{"id": 1, "image_id": 5, "category_id": 3, "bbox": [1, 2.5, 3, 4], "area": 9.5, "iscrowd": 0, "segmentation": [[1, 2, 4, 2, 4, 6], [7, 1, 9, 1, 9, 3, 7, 3]]}`,
		`{"id": 2, "image_id": 5, "category_id": 3, "bbox": [0, 0, 10, 1], "area": 10, "iscrowd": 1, "segmentation": {"size": [8, 10], "counts": [0, 8, 72]}}`,
		`{"id": 4, "image_id": 5, "category_id": 3, "bbox": [9, 7, 5, 5], "area": 0, "segmentation": {"size": [8, 10], "counts": "08X2"}}`,
		`{"id": 3, "image_id": 5, "category_id": 3, "bbox": [9, 7, 0, 0], "area": 0, "iscrowd": true, "segmentation": []}`,
	)), "in.json")
	if err != nil || in.SkippedCount != 0 {
		t.Fatal(err, in.Skipped)
	}
	if !slices.Equal(in.Images, []InstanceImage{{5, "five.jpg", 8, 10}}) || !slices.Equal(in.Categories, []ObjectCategory{{3, "cat"}}) {
		t.Errorf("images %v, categories %v", in.Images, in.Categories)
	}
	if size, ok := in.ImageSize(5); !ok || size != (Size{8, 10}) || !in.HasCategory(3) || in.HasCategory(5) {
		t.Errorf("image 5 has %v, %v", size, ok)
	}
	for i, want := range []struct {
		id    int64
		crowd bool
		area  int
	}{{1, false, 10}, {2, true, 8}, {4, false, 8}, {3, true, -1}} {
		a := in.Annotations[i]
		mask, err := a.Mask.Runs(Size{8, 10})
		if a.ID != want.id || a.Crowd != want.crowd || a.Mask.None() != (want.area < 0) || (err != nil) != (want.area < 0) || want.area >= 0 && mask.Area() != want.area {
			t.Errorf("annotation %d: id %d, crowd %v, area %d, %v; want %v", i, a.ID, a.Crowd, mask.Area(), err, want)
		}
	}
	if first := in.Annotations[0]; first.Box != [4]float64{1, 2.5, 3, 4} || first.Area != 9.5 || first.Image != 5 || first.Category != 3 {
		t.Errorf("%+v", first)
	}
}

func TestBadAnnotationsAreSkippedInOneLine(t *testing.T) {
	const good = `"image_id": 5, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 9`
	for _, test := range []struct{ annotation, want string }{
		{`{"image_id": 5}`, "annotations[1]: it has no id"},
		{`17`, "annotations[1]: number, want an object"},
		{`{"id": "x"}`, "annotation \"x\": it has no image_id"},
		{`{"id": 1.5}`, "annotations[1]: the id 1.5 is neither a whole number nor a text"},
		{`{"id": 7, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 9}`, "annotation 7: it has no image_id"},
		{`{"id": 7, "image_id": 5, "bbox": [1, 2, 3, 4], "area": 9}`, "annotation 7: it has no category_id"},
		{`{"id": 7, "image_id": 5, "category_id": 3, "bbox": [1, 2, 3], "area": 9}`, "annotation 7: its bbox has 3 numbers, want x, y, width and height"},
		{`{"id": 7, "image_id": 5, "category_id": 3, "bbox": [1, 2, 3, 4], "area": -1}`, "annotation 7: its area is -1"},
		{`{"id": 7, "image_id": 5, "category_id": 3, "bbox": ["1", 2, 3, 4], "area": 9}`, "annotation 7: bbox: string, want a number"},
		{`{"id": 7, "image_id": 6, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 9}`, "annotation 7: there is no image 6"},
		{`{"id": 7, "image_id": 5, "category_id": 4, "bbox": [1, 2, 3, 4], "area": 9}`, "annotation 7: there is no category 4"},
		{`{"id": 1, ` + good + `}`, "annotation 1: its id is there twice"},
		{`{"id": 7, "image_id": 5, "category_id": 3, "bbox": [1, 2, -3, 4], "area": 9}`, "annotation 7: its box has -3×4 pixels"},
		{`{"id": 7, "image_id": 5, "category_id": 3, "bbox": [1, 2, 3, 1e999], "area": 9}`, "annotation 7: bbox: number 1e999, want a number"},
		{`{"id": 7, "iscrowd": 2, ` + good + `}`, "annotation 7: iscrowd is 2, want 0 or 1"},
	} {
		t.Run(test.want, func(t *testing.T) {
			in, err := ReadInstances(strings.NewReader(instancesFile(`{"id": 1, `+good+`}`, test.annotation, `{"id": 8, `+good+`}`)), "in.json")
			if err != nil {
				t.Fatal(err)
			}
			if len(in.Annotations) != 2 || in.Annotations[1].ID != 8 || in.SkippedCount != 1 {
				t.Fatalf("%d annotations, %d skipped", len(in.Annotations), in.SkippedCount)
			}
			if s := in.Skipped[0]; s.File != "in.json" || !strings.HasPrefix(s.Reason, test.want) || strings.Contains(s.Reason, "\n") {
				t.Errorf("%q: %q, want %q", s.File, s.Reason, test.want)
			}
		})
	}
}

// TestBoxesDoNotDependOnMasks: a wrong mask is skipped where masks are needed, and there alone.
func TestBoxesDoNotDependOnMasks(t *testing.T) {
	const good = `"image_id": 5, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 9, "segmentation": [[1, 2, 3, 4, 5, 6]]`
	const box = `"image_id": 5, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 9`
	for _, test := range []struct{ annotation, want string }{
		{`{"id": 7, ` + box + `}`, "annotation 7: it has no segmentation"},
		{`{"id": 7, ` + box + `, "segmentation": [[]]}`, "annotation 7: polygon 0: 0 numbers, want x and y of at least 3 corners"},
		{`{"id": 7, ` + box + `, "segmentation": [1, 2, 3, 4, 5, 6]}`, "annotation 7: the segmentation is not a list of polygons"},
		{`{"id": 7, ` + box + `, "segmentation": "x"}`, "annotation 7: the segmentation is neither a list of polygons nor an object with size"},
		{`{"id": 7, ` + box + `, "segmentation": {"counts": "x"}}`, "annotation 7: the segmentation is neither a list of polygons nor an object with size"},
		{`{"id": 7, ` + box + `, "segmentation": {"size": [8, 10], "counts": [1, -1]}}`, "annotation 7: the segmentation's counts are neither a string nor a list of whole numbers"},
		{`{"id": 7, ` + box + `, "segmentation": {"size": [8, 10]}}`, "annotation 7: the segmentation's counts are neither"},
		{`{"id": 7, ` + box + `, "segmentation": {"size": [10, 8], "counts": [80]}}`, "annotation 7: a mask of 8×10 pixels in an image of 10×8"},
		{`{"id": 7, ` + box + `, "segmentation": {"size": [8, 10], "counts": [40]}}`, "annotation 7: mask: the runs have 40 pixels, not the 80 of 10×8"},
		{`{"id": 7, ` + box + `, "segmentation": {"size": [8, 10], "counts": "x"}}`, "annotation 7: mask: character 0 of the compressed text, 'x', is not between '0' and 'o'"},
	} {
		t.Run(test.want, func(t *testing.T) {
			in, err := ReadInstances(strings.NewReader(instancesFile(`{"id": 1, `+good+`}`, test.annotation, `{"id": 8, `+good+`}`)), "in.json")
			if err != nil || len(in.Annotations) != 3 || in.SkippedCount != 0 {
				t.Fatalf("%d annotations, %d skipped, %v", len(in.Annotations), in.SkippedCount, err)
			}
			if lines := in.RequireMasks(); len(in.Annotations) != 2 || in.SkippedCount != 1 || len(lines) != 1 || !strings.HasPrefix(lines[0].Reason, test.want) {
				t.Errorf("%d annotations, skipped %q, want %q", len(in.Annotations), lines, test.want)
			}
		})
	}
}

// TestOddAnnotationsAreRead holds what pycocotools and detectron2 take: whole numbers with a point, a missing area, stray polygons beside good ones, boxes
// outside the image, images of unknown size.
func TestOddAnnotationsAreRead(t *testing.T) {
	in, err := ReadInstances(strings.NewReader(`{"images": [{"id": "b"}, {"id": "a", "width": 10, "height": 8}], "categories": [{"id": 1.0}], "annotations": [
		{"id": 1e0, "image_id": "a", "category_id": 1, "iscrowd": 0.0, "bbox": [20, 2, 3, 4], "segmentation": [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4], []]},
		{"id": 2, "image_id": "b", "category_id": 1.0, "iscrowd": 1.0, "bbox": [1, 2, 3, 4], "segmentation": [[1, 2, 3, 4, 5, 6]]}]}`), "in.json")
	if err != nil || len(in.Annotations) != 2 || in.SkippedCount != 0 || in.SkippedPolygons != 2 {
		t.Fatalf("%+v, %v", in, err)
	}
	if a := in.Annotations[0]; a.Area != 12 || a.Crowd || !in.Annotations[1].Crowd || len(a.Mask.Polygons) != 1 || a.ID != 1 {
		t.Errorf("%+v", in.Annotations)
	}
	if a, b := in.Annotations[0].Image, in.Annotations[1].Image; CompareIDs(a, b) >= 0 {
		t.Errorf("image a, %d, is not before image b, %d", a, b)
	}
	if lines := in.RequireMasks(); len(lines) != 1 || !strings.Contains(lines[0].Reason, "annotation 2: the file does not say how large its image is") {
		t.Errorf("%q", lines)
	}
}

func TestManyBadAnnotationsAreCounted(t *testing.T) {
	in, err := ReadInstances(strings.NewReader(instancesFile(strings.Repeat(`{},`, 999)+`{}`)), "in.json")
	if err != nil || in.SkippedCount != 1000 || len(in.Skipped) != 100 {
		t.Errorf("%v: %d skipped, %d of them listed", err, in.SkippedCount, len(in.Skipped))
	}
}

func TestReadInstancesErrors(t *testing.T) {
	whole := instancesFile()
	for _, test := range []struct{ file, want string }{
		{"", "in.json: ends too soon"},
		{whole[:len(whole)-1], "in.json: ends too soon"},
		{whole[:80], "in.json: ends too soon"},
		{whole + "{}", "in.json: more follows the end, at byte "},
		{"[]", "in.json: want a JSON object at byte 1"},
		{`{"images": {}}`, "in.json: want a list at byte "},
		{`{"images": [{"id": NaN}]}`, "in.json: is not JSON at byte "},
		{`{"images": [{}]}`, "in.json: images[0] has no id"},
		{`{"images": [{"id": 1.5}]}`, "in.json: images[0]: the id 1.5 is neither a whole number nor a text"},
		{`{"images": [{"id": 1, "width": 0, "height": 3}]}`, "in.json: image 1 has 0×3 pixels"},
		{`{"images": [{"id": 1, "width": 1000000, "height": 1000000}]}`, "in.json: image 1 has 1000000×1000000 pixels"},
		{`{"images": [{"id": 1, "width": 1, "height": 1}, {"id": 1, "width": 1, "height": 1}]}`, "in.json: image 1 is there twice"},
		{`{"categories": [{"name": "cat"}]}`, "in.json: categories[0] has no id"},
		{`{"categories": [{"id": 1}, {"id": 1}]}`, "in.json: category 1 is there twice"},
		{`{}`, "in.json: has no images"},
		{`{"images": [{"id": 1, "width": 1, "height": 1}]}`, "in.json: has no categories"},
		{`{"images": [{"id": 1, "width": 1, "height": 1}], "categories": [{"id": 1}]}`, "in.json: has no annotations"},
	} {
		t.Run(test.want, func(t *testing.T) {
			_, err := ReadInstances(strings.NewReader(test.file), "in.json")
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	t.Run("a value without end", func(t *testing.T) {
		endless := io.MultiReader(strings.NewReader(`{"annotations": [[`), repeated("1,"))
		if _, err := ReadInstances(endless, "in.json"); err == nil || err.Error() != "in.json: a value is longer than 64 MiB" {
			t.Error(err)
		}
	})
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "in.json")
		if err := os.WriteFile(file, []byte(whole), 0o666); err != nil {
			t.Fatal(err)
		}
		if in, err := OpenInstances(file); err != nil || len(in.Images) != 1 || in.Name != file {
			t.Error(in, err)
		}
		for path, want := range map[string]string{file + "x": "no such file or directory", dir: "is not a regular file"} {
			if _, err := OpenInstances(path); err == nil || err.Error() != path+": "+want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	})
}

// repeated is a stream of a text without end.
type repeated string

func (r repeated) Read(p []byte) (int, error) {
	n := len(p) / len(r) * len(r)
	copy(p, strings.Repeat(string(r), n/len(r)))
	return n, nil
}

// FuzzReadInstances: any file is read in bounded memory, and what is wrong is said in one line.
func FuzzReadInstances(f *testing.F) {
	f.Add([]byte(instancesFile(
		`{"id": 1, "image_id": 5, "category_id": 3, "bbox": [1, 2.5, 3, 4], "area": 9.5, "iscrowd": 0, "segmentation": [[1, 2, 4, 2, 4, 6]]}`,
		`{"id": 2, "image_id": 5, "category_id": 3, "bbox": [0, 0, 10, 1], "area": 10, "iscrowd": 1, "segmentation": {"size": [8, 10], "counts": [0, 8, 72]}}`,
		`{"id": 4, "image_id": 5, "category_id": 3, "bbox": [9, 7, 5, 5], "area": 0, "segmentation": {"size": [8, 10], "counts": "08X2"}}`,
	)))
	f.Fuzz(func(t *testing.T, file []byte) {
		in, err := ReadInstances(strings.NewReader(string(file)), "in.json")
		if err != nil {
			if text := err.Error(); strings.Contains(text, "\n") || !strings.HasPrefix(text, "in.json: ") || len(text) > 1000 {
				t.Errorf("%q is not one line with the file", text)
			}
			return
		}
		for _, s := range in.Skipped {
			if line := fmt.Sprint(s.File, ": ", s.Reason); strings.Contains(line, "\n") || !strings.HasPrefix(line, "in.json: annotation") || len(line) > 1000 {
				t.Errorf("%q is not one line with file and id", line)
			}
		}
		for _, a := range in.Annotations {
			size, known := in.ImageSize(a.Image)
			if !known || !in.HasCategory(a.Category) || a.Box[2] < 0 || a.Box[3] < 0 {
				t.Errorf("%+v is no good annotation", a)
			}
			if a.Mask.None() || size.Height*size.Width > 1<<20 {
				continue
			}
			if mask, err := a.Mask.Runs(size); err != nil && !strings.Contains(err.Error(), "outline is too long") {
				t.Errorf("annotation %d: %v", a.ID, err)
			} else if mask.Area() > size.Height*size.Width {
				t.Errorf("annotation %d has %d pixels", a.ID, mask.Area())
			}
		}
	})
}
