package datasets

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// greyFolder returns a folder of n images of various sizes. Image i has grey i.
func greyFolder(t *testing.T, n int) (dir string, images *ImageFolder) {
	t.Helper()
	dir = t.TempDir()
	files := map[string][]byte{}
	for i := range n {
		picture := image.NewGray(image.Rect(0, 0, 3+i%5, 3+i%3))
		for p := range picture.Pix {
			picture.Pix[p] = uint8(i)
		}
		files[fmt.Sprintf("%03d.png", i)] = encodePNG(t, picture)
	}
	write(t, dir, files)
	images, err := OpenImageFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, images
}

// take returns the first batches from a step on.
func take(t *testing.T, m Loader, from, n int) []*Batch {
	t.Helper()
	var batches []*Batch
	for batch, err := range m.Batches(t.Context(), from) {
		if err != nil {
			t.Fatal(err)
		}
		if batches = append(batches, batch); len(batches) == n {
			break
		}
	}
	return batches
}

func TestLoaderIsOneToOneAndPassesThroughBoth(t *testing.T) {
	_, scenes := greyFolder(t, 6)
	objects := noise(9, 8, 1)
	m := Loader{Objects: objects, Scenes: scenes, BatchSize: 6, ImageSize: 8, Seed: 3}
	seen := map[int32]int{}
	for step, b := range take(t, m, 0, 6) { // Two epochs of objects, three of scenes.
		if b.Step != step || b.Objects != 3 || b.Scenes != 3 || b.Positives != 0 || len(b.Images) != 6 {
			t.Fatalf("step %d: %+v", step, b)
		}
		for i, image := range b.Images {
			seen[image]++
			pixels := b.Pixels[i*8*8*3:][:8*8*3]
			if (image < 9) != (i < 3) {
				t.Errorf("step %d has image %d in place %d", step, image, i)
			}
			if image < 9 && !slices.Equal(pixels, objects.At(int(image))) {
				t.Errorf("step %d, place %d does not hold object %d", step, i, image)
			}
			if scene := int(image) - 9; scene >= 0 && (pixels[0] != uint8(scene) || b.Sizes[i] != Size{3 + scene%3, 3 + scene%5}) {
				t.Errorf("step %d, place %d holds grey %d of %v for scene %d", step, i, pixels[0], b.Sizes[i], scene)
			}
		}
	}
	for image := range int32(15) {
		if want := map[bool]int{true: 2, false: 3}[image < 9]; seen[image] != want {
			t.Errorf("image %d was seen %d times, want %d", image, seen[image], want)
		}
	}
}

func TestLoaderOfOneSource(t *testing.T) {
	_, scenes := greyFolder(t, 5)
	if b := take(t, Loader{Scenes: scenes, BatchSize: 3, ImageSize: 8}, 0, 1)[0]; b.Objects != 0 || b.Scenes != 3 {
		t.Errorf("%+v", b)
	}
	if b := take(t, Loader{Objects: scenes, BatchSize: 3, ImageSize: 8}, 0, 1)[0]; b.Objects != 3 || b.Scenes != 0 {
		t.Errorf("%+v", b)
	}
}

func TestLoaderDependsOnSeedAndStepAlone(t *testing.T) {
	_, scenes := greyFolder(t, 20)
	m := Loader{Objects: noise(9, 8, 1), Scenes: scenes, BatchSize: 8, ImageSize: 8, Seed: 3, Workers: 1,
		Positive: func(step int, image int32) int32 { return (image + int32(step)) % 9 }}
	want := take(t, m, 0, 8)
	m.Workers = 7
	if !reflect.DeepEqual(take(t, m, 0, 8), want) {
		t.Error("seven workers read something else than one")
	}
	if !reflect.DeepEqual(take(t, m, 5, 3), want[5:]) {
		t.Error("a run that resumes at step 5 reads something else")
	}
	m.Seed = 4
	if reflect.DeepEqual(take(t, m, 0, 1), want[:1]) {
		t.Error("another seed reads the same")
	}
}

func TestLoaderReadsPositives(t *testing.T) {
	objects := noise(9, 8, 1)
	m := Loader{Objects: objects, BatchSize: 4, ImageSize: 8, Positive: func(step int, image int32) int32 { return 8 - image }}
	b := take(t, m, 2, 1)[0]
	if b.Positives != 4 || len(b.Images) != 8 || len(b.Pixels) != 8*8*8*3 {
		t.Fatalf("%d positives, %d images", b.Positives, len(b.Images))
	}
	for i := range 4 {
		if b.Images[4+i] != 8-b.Images[i] || !slices.Equal(b.Pixels[(4+i)*8*8*3:][:8*8*3], objects.At(int(8-b.Images[i]))) {
			t.Errorf("place %d has the positive %d of %d", i, b.Images[4+i], b.Images[i])
		}
	}
}

func TestLoaderAndBrokenImages(t *testing.T) {
	dir, scenes := greyFolder(t, 5)
	good := encodePNG(t, flat(4, 4, color.White))
	write(t, dir, map[string][]byte{"002.png": good[:20], "003.png": []byte("text")})
	m := Loader{Scenes: scenes, BatchSize: 5, ImageSize: 8}
	want := take(t, m, 0, 2)
	for _, b := range want {
		var names []string
		for _, s := range b.Skipped {
			names = append(names, filepath.Base(s.File))
			if want := filepath.Join(filepath.Base(dir), filepath.Base(s.File)); s.File != want || strings.Contains(s.Reason, ".png") {
				t.Errorf("skipped %q because %q, want %s named once", s.File, s.Reason, want)
			}
		}
		slices.Sort(names)
		if fmt.Sprint(names) != "[002.png 003.png 003.png]" { // Image 2 goes to 3, which goes to 4, as 3 itself does.
			t.Errorf("skipped %v", b.Skipped)
		}
		slices.Sort(b.Images)
		if fmt.Sprint(b.Images) != "[0 1 4 4 4]" {
			t.Errorf("images %v", b.Images)
		}
	}
	write(t, dir, map[string][]byte{"000.png": nil, "001.png": nil, "004.png": nil})
	for _, err := range m.Batches(t.Context(), 0) {
		if err == nil || !strings.Contains(err.Error(), "100 images in a row cannot be read") {
			t.Errorf("error %v", err)
		}
	}
}

func TestLoaderStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps := 0
	var last error
	for batch, err := range (Loader{Objects: noise(4, 8, 1), BatchSize: 2, ImageSize: 8}).Batches(ctx, 0) {
		if last = err; err == nil && batch.Step != steps {
			t.Errorf("step %d after %d", batch.Step, steps)
		}
		if steps++; steps == 3 {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("ended with %v", last)
	}
}

func TestLoaderCheckNamesWhatIsWrong(t *testing.T) {
	good := Loader{Objects: noise(4, 8, 1), Scenes: noise(4, 8, 2), BatchSize: 4, ImageSize: 8}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Loader){
		"no source":         func(m *Loader) { m.Objects, m.Scenes = nil, nil },
		"is empty":          func(m *Loader) { m.Scenes = &Images{} },
		"batch size 3":      func(m *Loader) { m.BatchSize = 3 },
		"image size 0":      func(m *Loader) { m.ImageSize = 0 },
		"-1 workers":        func(m *Loader) { m.Workers = -1 },
		"positives without": func(m *Loader) { m.Objects, m.Positive = nil, func(int, int32) int32 { return 0 } },
	} {
		m := good
		spoil(&m)
		for _, err := range m.Batches(t.Context(), 0) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one on %q", err, want)
			}
		}
	}
}

// TestFirstErrorInTheOrderOfImages: image 3 fails after image 5 if several are read at once, and its error counts.
func TestFirstErrorInTheOrderOfImages(t *testing.T) {
	for _, workers := range []int{1, 2, 7} {
		failed := make(chan bool)
		err := EachImage(t.Context(), 9, workers, func(i int) error {
			switch {
			case i == 5:
				defer close(failed)
				return errors.New("image 5")
			case i == 3 && workers > 1:
				<-failed
				fallthrough
			case i == 3:
				return errors.New("image 3")
			}
			return nil
		})
		if err == nil || err.Error() != "image 3" {
			t.Errorf("%d workers: error %v", workers, err)
		}
		for _, last := range InTurn(t.Context(), 9, workers, func(i int) (int, error) {
			if i == 3 || i == 5 {
				return 0, fmt.Errorf("image %d", i)
			}
			return i, nil
		}) {
			err = last
		}
		if err == nil || err.Error() != "image 3" {
			t.Errorf("blocks of %d: error %v", workers, err)
		}
	}
}

// panicking is a source whose images cannot be read without a panic.
type panicking struct{}

func (panicking) Len() int { return 4 }

func (panicking) Read(int, []uint8, int) (Size, error) { panic("out of range\ngoroutine 1") }

// TestLoaderReturnsPanicsOfItsWorkers would end the process if a goroutine did not recover.
func TestLoaderReturnsPanicsOfItsWorkers(t *testing.T) {
	for _, err := range (Loader{Scenes: panicking{}, BatchSize: 2, ImageSize: 8}).Batches(t.Context(), 0) {
		if err == nil || err.Error() != "internal error: out of range" {
			t.Errorf("error %v", err)
		}
	}
}
