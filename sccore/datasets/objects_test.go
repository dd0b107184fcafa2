package datasets

import (
	"errors"
	"image"
	"image/color"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// writeTree writes files below a new folder.
func writeTree(t *testing.T, files map[string][]byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const objectsJSON = `{"images": [{"id": 5, "file_name": "a.jpg", "height": 8, "width": 10}, {"id": 3, "file_name": "b.jpg", "height": 8, "width": 10}, {"id": 4, "file_name": "c.jpg", "height": 8, "width": 10}],
	"categories": [{"id": 3, "name": "cat"}, {"id": 90, "name": "brush"}], "annotations": [
	{"id": 1, "image_id": 3, "category_id": 90, "bbox": [1, 2, 3, 4], "area": 12, "segmentation": [[1, 2, 4, 2, 4, 6, 1, 6]]},
	{"id": 2, "image_id": 5, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 1, "segmentation": {"size": [8, 10], "counts": [0, 8, 72]}},
	{"id": 3, "image_id": 3, "category_id": 3, "bbox": [0, 0, 3, 4], "area": 12, "segmentation": {"size": [10, 8], "counts": [0, 8, 72]}}]}`

func TestCOCOObjectsOfInstances(t *testing.T) {
	jpeg := encodeJPEG(t, flat(10, 8, color.White))
	files := map[string][]byte{
		"coco/annotations/instances_val2017.json": []byte(objectsJSON), "coco/annotations/panoptic_val2017.json": []byte("damaged, and not looked at"),
		"coco/val2017/a.jpg": jpeg, "coco/val2017/b.jpg": jpeg, "coco/val2017/c.jpg": encodeJPEG(t, flat(9, 8, color.White)),
	}
	dir := writeTree(t, files)
	o, err := COCOObjects(dir, Test)
	if err != nil {
		t.Fatal(err)
	}
	if o.Len() != 3 || o.Image(1).ID != 3 || len(o.Annotations(0)) != 1 || len(o.Annotations(1)) != 1 || len(o.Annotations(2)) != 0 || !slices.Equal(classesOf(o.Truth), []string{"cat", "brush"}) {
		t.Errorf("%+v", o.Truth)
	}
	file := filepath.Join(dir, "coco/annotations/instances_val2017.json")
	if s := o.Truth.Skipped; len(s) != 1 || s[0].File != file || s[0].Reason != "annotation 3: a mask of 8×10 pixels in an image of 10×8" {
		t.Errorf("skipped %v", s)
	}
	if a, err := o.Read(1); err != nil || a.Height != 8 || a.Width != 10 || len(a.Pixels) != 240 || a.Mask != nil {
		t.Errorf("%v, %v", a, err)
	}
	if _, err := o.Read(2); err == nil || !strings.Contains(err.Error(), "c.jpg: image 4 has 9×8 pixels, instances_val2017.json says 10×8") {
		t.Error(err)
	}
	// Crowds alone are not trained on. The truth of a part has the part's objects only.
	part := o.Annotated()
	if part.Len() != 1 || part.Image(0).ID != 3 || len(part.Truth.Annotations) != 1 || part.Truth.Annotations[0].ID != 1 || part.Identity == o.Identity {
		t.Errorf("%+v", part.Truth)
	}
	if a, err := part.Read(0); err != nil || filepath.Base(a.Name) != "b.jpg" {
		t.Error(a, err)
	}
	if _, known := part.Truth.ImageSize(5); known {
		t.Error("the part knows an image that it does not have")
	}
	if again, err := COCOObjects(dir, Test); err != nil || again != o {
		t.Errorf("the annotations are read again: %v", err)
	}
	if _, err := COCOObjects(dir, Train); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the other split: %v", err)
	}

	// Without a mask an object cannot be trained on; crowds are skipped alike.
	bare := maps.Clone(files)
	bare["coco/annotations/instances_val2017.json"] = regexp.MustCompile(`"segmentation": *(\[\[[^}]*?\]\]|\{[^}]*\})`).ReplaceAll([]byte(objectsJSON), []byte(`"segmentation": []`))
	none, err := COCOObjects(writeTree(t, bare), Test)
	if err != nil || len(none.Truth.Annotations) != 0 || none.Truth.SkippedCount != 3 || none.Truth.Skipped[0].Reason != "annotation 1: it has no segmentation" {
		t.Errorf("without masks: %+v, %v", none.Truth, err)
	}

	delete(files, "coco/val2017/b.jpg")
	dir = writeTree(t, files)
	if _, err := COCOObjects(dir, Test); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "instances_val2017.json: image 3: "+dir) {
		t.Errorf("an image is missing: %v", err)
	}
	files["coco/annotations/instances_val2017.json"] = []byte(strings.Replace(objectsJSON, "b.jpg", "../b.jpg", 1))
	if _, err := COCOObjects(writeTree(t, files), Test); err == nil || !strings.Contains(err.Error(), `image 3: "../b.jpg" is not the name of a file`) {
		t.Error(err)
	}
}

// TestCOCOObjectsOfPanoptic makes objects of an image of 4×3 pixels with two things in parts, stuff, and segments that cannot be used.
func TestCOCOObjectsOfPanoptic(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 4, 3))
	for i, segment := range []uint32{
		70000, 70000, 5, 9,
		70000, 5, 5, 9,
		6, 6, 5, 0,
	} {
		picture.SetRGBA(i%4, i/4, color.RGBA{uint8(segment), uint8(segment >> 8), uint8(segment >> 16), 255})
	}
	const annotations = `{"annotations": [{"image_id": 8, "file_name": "1.png", "segments_info": [{"id": 5, "category_id": 1}, {"id": 9, "category_id": 184}, {"id": 6, "category_id": 77},
		{"id": 70000, "category_id": 18, "iscrowd": 1}, {"id": 44, "category_id": 1}]}], "images": [{"id": 8, "file_name": "1.jpg", "height": 3, "width": 4}],
		"categories": [{"id": 1, "name": "person", "isthing": 1}, {"id": 18, "name": "dog", "isthing": 1}, {"id": 184, "name": "tree", "isthing": 0}]}`
	files := map[string][]byte{
		"coco/annotations/panoptic_train2017.json": []byte(annotations), "coco/annotations/panoptic_train2017/1.png": encodePNG(t, picture),
		"coco/images/train2017/1.jpg": encodeJPEG(t, flat(4, 3, color.White)),
	}
	o, err := COCOObjects(writeTree(t, files), Train)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(classesOf(o.Truth), []string{"person", "dog"}) || len(o.Truth.Annotations) != 2 {
		t.Fatalf("%+v", o.Truth)
	}
	for i, want := range []struct {
		category int64
		box      [4]float64
		area     float64
		crowd    bool
		pixels   string
	}{{1, [4]float64{1, 0, 2, 3}, 4, false, "..#..##...#."}, {18, [4]float64{0, 0, 2, 2}, 3, true, "##..#......."}} {
		a := o.Truth.Annotations[i]
		mask, err := a.Mask.Runs(Size{3, 4})
		if err != nil {
			t.Fatal(err)
		}
		pixels := ""
		for _, inside := range mask.Pixels() {
			pixels += map[bool]string{true: "#", false: "."}[inside]
		}
		if a.ID != int64(i+1) || a.Image != 8 || a.Category != want.category || a.Box != want.box || a.Area != want.area || a.Crowd != want.crowd || pixels != want.pixels {
			t.Errorf("%+v of %s, want %+v", a, pixels, want)
		}
	}
	var skipped []string
	for _, s := range o.Truth.Skipped {
		skipped = append(skipped, s.Reason)
	}
	if want := []string{"image 8, segment 6: there is no category 77", "image 8, segment 44: it has no pixels"}; !slices.Equal(skipped, want) {
		t.Errorf("skipped %q, want %q", skipped, want)
	}

	for want, change := range map[string]func(map[string][]byte){
		"image 8: ": func(f map[string][]byte) { delete(f, "coco/annotations/panoptic_train2017/1.png") },
		"the mask is 2×1 pixels, image 8 is 4×3": func(f map[string][]byte) { f["coco/annotations/panoptic_train2017/1.png"] = segmentPNG(t, 5, 5) },
		"there is no image 9": func(f map[string][]byte) {
			f["coco/annotations/panoptic_train2017.json"] = []byte(strings.Replace(annotations, `"image_id": 8`, `"image_id": 9`, 1))
		},
		"has no categories of things": func(f map[string][]byte) {
			f["coco/annotations/panoptic_train2017.json"] = []byte(strings.ReplaceAll(annotations, `"isthing": 1`, `"isthing": 0`))
		},
		"train2017/1.jpg: no such file": func(f map[string][]byte) {
			delete(f, "coco/images/train2017/1.jpg")
			f["coco/images/train2017/2.jpg"] = nil
		},
	} {
		changed := map[string][]byte{}
		for name, content := range files {
			changed[name] = content
		}
		change(changed)
		if _, err := COCOObjects(writeTree(t, changed), Train); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
