package ownimages

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore"
)

// drawn returns a PNG of a disc on another colour.
func drawn(t *testing.T, number, size int) []byte {
	t.Helper()
	im := image.NewRGBA(image.Rect(0, 0, size+number%5, size))
	for y := range size {
		for x := range size + number%5 {
			c := color.RGBA{uint8(7 * number), uint8(40 + 5*y), uint8(200 - 3*x), 255}
			if dx, dy := x-size/2-number%7, y-size/2+number%4; dx*dx+dy*dy < (3+number%9)*(3+number%9) {
				c = color.RGBA{uint8(255 - 9*number), uint8(31 * number), 60, 255}
			}
			im.Set(x, y, c)
		}
	}
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, im); err != nil {
		t.Fatal(err)
	}
	return encoded.Bytes()
}

// folder writes a folder of n images, in class folders if there are names of classes.
func folder(t *testing.T, n int, classes ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		name := fmt.Sprintf("%02d.png", i)
		if len(classes) > 0 {
			name = filepath.Join(classes[i%len(classes)], name)
		}
		put(t, filepath.Join(dir, name), drawn(t, i, 24))
	}
	return dir
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesBadFolders(t *testing.T) {
	file := filepath.Join(folder(t, 1), "00.png")
	broken := t.TempDir()
	for i := range 20 {
		put(t, filepath.Join(broken, fmt.Sprintf("%02d.jpg", i)), []byte("no picture"))
	}
	for _, test := range []struct{ dir, want string }{
		{filepath.Join(t.TempDir(), "nowhere"), "no such file or directory"}, {t.TempDir(), "contains no .jpg, .jpeg or .png file"},
		{folder(t, 1), "contains 1 image, training needs 8"}, {file, "contains 1 image, training needs 8"}, {broken, "0 of the 5 images held out for gauges can be read, want 2"},
	} {
		_, err := Open(t.Context(), Folders{Images: []string{test.dir}}, 24, false, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), test.dir) {
			t.Errorf("error %v, want one line with %q", err, test.want)
		}
	}
	if _, err := Open(t.Context(), Folders{Images: []string{folder(t, 12)}, Objects: folder(t, 2)}, 24, false, nil); err == nil || !strings.Contains(err.Error(), "contains 2 images") {
		t.Errorf("two objects: %v", err)
	}
}

func TestOpenGoesOnWithoutBadFiles(t *testing.T) {
	dir := folder(t, 40)
	put(t, filepath.Join(dir, "deep", "er", "40.png"), drawn(t, 40, 24))
	put(t, filepath.Join(dir, "notes.txt"), []byte("x"))
	put(t, filepath.Join(dir, "00.png"), []byte("cut"))
	for link, target := range map[string]string{"nowhere.png": "nothing", "loop": "."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	im, err := Open(t.Context(), Folders{Images: []string{dir}}, 24, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	// 41 pictures, of which every fourth or so is held out, the first among them, which is broken.
	if im.Count != 31 || im.held.Len() != 9 || im.classes != nil || im.Train.Scenes != nil {
		t.Errorf("%d images and %d held out, classes %v", im.Count, im.held.Len(), im.classes)
	}
	all := strings.Join(im.Skipped, "\n")
	for _, want := range []string{"notes.txt: is neither", "nowhere.png", "loop: links back", "00.png: "} {
		if strings.Count(all, want) != 1 {
			t.Errorf("no %q, or several, in\n%s", want, all)
		}
	}
	if len(im.Skipped) != 4 {
		t.Errorf("skipped\n%s", all)
	}
}

// TestBrokenImagesHeldOutAreReplaced: of eight images two are held out, the first and the fifth. Each that is broken makes room for one to train on.
func TestBrokenImagesHeldOutAreReplaced(t *testing.T) {
	for _, test := range []struct {
		broken  []int
		count   int
		summary string
	}{
		{[]int{0}, 5, "8 images: 6 to train, 2 held out, and 1 of the 6 instead of broken ones; no class folders"},
		{[]int{0, 4}, 4, "8 images: 6 to train, 2 held out, and 2 of the 6 instead of broken ones; no class folders"},
		{[]int{0, 1}, 4, "8 images: 6 to train, 2 held out, and 1 of the 6 instead of broken ones, and 1 of the 5 instead of broken ones; no class folders"},
	} {
		dir := folder(t, 8)
		for _, i := range test.broken {
			put(t, filepath.Join(dir, fmt.Sprintf("%02d.png", i)), []byte("cut"))
		}
		im, err := Open(t.Context(), Folders{Images: []string{dir}}, 24, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if im.held.Len() != leastHeld || len(im.held.Pixels) != leastHeld*24*24*3 || im.Count != test.count || im.Train.Objects.Len() != test.count {
			t.Errorf("%v broken: %d images and %d held out", test.broken, im.Count, im.held.Len())
		}
		if len(im.Skipped) != len(test.broken) || im.Summary != test.summary {
			t.Errorf("%v broken: skipped %q, %s", test.broken, im.Skipped, im.Summary)
		}
	}
}

func TestOpenFindsClassFolders(t *testing.T) {
	objects := folder(t, 40, "cats", "dogs")
	for name, folders := range map[string]Folders{"one folder": {Images: []string{objects}}, "objects": {Images: []string{folder(t, 12)}, Objects: objects}} {
		im, err := Open(t.Context(), folders, 24, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(im.classes) != "[cats dogs]" || im.bank.Len() != 30 || im.queries.Len() != 10 {
			t.Fatalf("%s: classes %v, %d and %d images", name, im.classes, im.bank.Len(), im.queries.Len())
		}
		count := [2]int{}
		for _, label := range im.queries.Labels {
			count[label]++
		}
		if count != [2]int{5, 5} {
			t.Errorf("%s: held-out images of the classes: %v", name, count)
		}
	}
	one := folder(t, 12, "only")
	if im, err := Open(t.Context(), Folders{Images: []string{one}}, 24, false, nil); err != nil || im.classes != nil {
		t.Errorf("one class folder: %v", err)
	}
}

func TestSmokeTakesFewImages(t *testing.T) {
	im, err := Open(t.Context(), Folders{Images: []string{folder(t, 99)}}, 24, true, nil)
	if err != nil || im.Count+im.held.Len() != smokeImages {
		t.Errorf("%v images, %v", im, err)
	}
	if want := "99 images; smoke takes 64 of them: 54 to train, 10 held out; no class folders"; im.Summary != want {
		t.Errorf("%q, want %q", im.Summary, want)
	}
}

// TestBatchesThatRepeatImages: a batch holds an image once, also where half of it comes from a small folder.
func TestBatchesThatRepeatImages(t *testing.T) {
	one, err := Open(t.Context(), Folders{Images: []string{folder(t, 20)}}, 24, false, nil) // 15 to train.
	if err != nil {
		t.Fatal(err)
	}
	two, err := Open(t.Context(), Folders{Images: []string{folder(t, 64)}, Objects: folder(t, 12, "cats", "dogs")}, 24, false, nil) // 54 and 9.
	if err != nil {
		t.Fatal(err)
	}
	if want := "scenes: 64 images: 54 to train, 10 held out; objects: 12 images: 9 to train, 3 held out; 2 class folders"; two.Summary != want {
		t.Errorf("%q, want %q", two.Summary, want)
	}
	for _, test := range []struct {
		images        *Images
		batch, inPart int
		want          string
	}{
		{one, 15, 1, ""}, {one, 16, 1, "there are 15 images to train on; --set batch=8 fits"}, {one, 30, 2, ""},
		{two, 18, 1, ""}, {two, 20, 1, "one has 9 images to train on; --set batch=16 fits"},
	} {
		c := sccore.Default()
		c.Batch, c.AccumulationSteps = test.batch, test.inPart
		if got := test.images.repeats(c); (got == "") != (test.want == "") || !strings.HasSuffix(got, test.want) {
			t.Errorf("batch %d: %q, want %q", test.batch, got, test.want)
		}
	}
}
