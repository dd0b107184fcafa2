package finetune

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

var smallTransform = SegmentationTransform{Scale: Scale{48, 24}, MinRatio: 0.5, MaxRatio: 2, CropSize: 16, CatMaxRatio: 0.75, PhotometricDistortion: true}

// training is a training on crops of smallTransform, whose batches of this size have parts.
func training(size, parts int) SegmentationTraining {
	return SegmentationTraining{Transform: smallTransform, Training: Training{Batch: size * parts, Parts: parts}}
}

// take returns the first batches from one on.
func take[I any](t *testing.T, batches iter.Seq2[*Batch[I], error], count int) (taken []*Batch[I]) {
	t.Helper()
	for batch, err := range batches {
		if err != nil {
			t.Fatal(err)
		}
		if taken = append(taken, batch); len(taken) == count {
			break
		}
	}
	return taken
}

func TestBatchesDependOnSeedAndStepAlone(t *testing.T) {
	images := synthetic.Scenes(7, 24, 1).Segmentation()
	from := func(c SegmentationTraining, seed uint64, from, count int) []*Batch[SegmentationCrop] {
		t.Helper()
		return take(t, c.Batches(t.Context(), images, seed, from), count)
	}
	one := training(4, 1)
	want := from(one, 9, 0, 6)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for workers := 1; workers <= 3; workers++ {
		runtime.GOMAXPROCS(workers)
		for _, parts := range []int{1, 3, 4} {
			if !reflect.DeepEqual(from(training(4, parts), 9, 0, 6), want) {
				t.Errorf("%d parts, %d workers: other batches", parts, workers)
			}
		}
	}
	if got := from(one, 9, 3, 3); !reflect.DeepEqual(got, want[3:]) {
		t.Error("a run that resumes at step 3 draws other batches")
	}
	if got := from(training(4, 2), 9, 3, 3); !reflect.DeepEqual(got, want[3:]) {
		t.Error("a run that reads two batches at once and resumes at the second draws other batches")
	}
	if reflect.DeepEqual(from(one, 10, 0, 1), want[:1]) {
		t.Error("another seed draws the same batch")
	}

	// Each epoch has each image once, and other crops of it.
	seen := map[int]int{}
	crops, orders := map[string]bool{}, [3]string{}
	for i, batch := range want {
		if batch.Step != i || len(batch.Made) != 4 || batch.Canvas != (datasets.Size{Height: 16, Width: 16}) {
			t.Fatalf("batch %d: %+v", i, batch)
		}
		for k, at := range batch.Images {
			crop, image := batch.Made[k], at.Image
			if len(crop.Pixels) != 16*16*3 || len(crop.Labels) != 16*16 || crop.Size.Height < 1 || crop.Size.Height > 16 {
				t.Fatalf("batch %d: %+v", i, crop)
			}
			if place := 4*i + k; place < 21 {
				orders[place/7] += strconv.Itoa(image)
				if seen[image]++; seen[image] > place/7+1 {
					t.Errorf("image %d comes twice in epoch %d", image, place/7)
				}
			}
			crops[string(crop.Pixels)] = true
		}
	}
	if orders[0] == orders[1] || orders[1] == orders[2] {
		t.Errorf("orders of the epochs: %v", orders)
	}
	if len(crops) != 24 {
		t.Errorf("%d different crops of 24", len(crops))
	}
	// A crop of a batch is the crop of its image.
	a, err := images.Read(want[4].Images[1].Image) // Place 17, in epoch 2.
	if err != nil {
		t.Fatal(err)
	}
	if crop := smallTransform.Apply(a, 9, 2, want[4].Images[1].Image); !reflect.DeepEqual(crop, want[4].Made[1]) {
		t.Error("the batch has another crop of its image")
	}
}

// broken has five images, of which some cannot be used.
func broken(bad map[int]*datasets.SegmentedImage) *datasets.Segmentation {
	return datasets.NewSegmentation("five", []string{"a", "b"}, "", 5, func(i int) (*datasets.SegmentedImage, error) {
		if a, is := bad[i]; is && a == nil {
			return nil, fmt.Errorf("image%d.jpg: damaged", i)
		} else if is {
			return a, nil
		}
		return &datasets.SegmentedImage{Height: 2, Width: 2, Pixels: make([]uint8, 12), Mask: []uint8{0, 1, 1, datasets.Ignore}}, nil
	})
}

func TestBrokenImages(t *testing.T) {
	for batch, err := range training(5, 1).Batches(t.Context(), broken(map[int]*datasets.SegmentedImage{3: nil}), 0, 0) {
		if err == nil || err.Error() != "image3.jpg: damaged" || batch != nil {
			t.Errorf("%v, error %v", batch, err)
		}
	}
}

// TestBrokenFiles has files in VOC's layout, as users have them.
func TestBrokenFiles(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"ImageSets/Segmentation/train.txt": "a\n", "JPEGImages/a.jpg": "not a picture", "SegmentationClass/a.png": ""}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	images, err := datasets.VOC(dir, datasets.Train)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range training(2, 1).Batches(t.Context(), images, 0, 0) {
		if want := filepath.Join(dir, "JPEGImages/a.jpg") + ": is neither JPEG nor PNG"; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestBatchesOfNothing(t *testing.T) {
	segmentation, detection := training(2, 1), tinyDetection()
	none := datasets.NewObjectImages("none", "none", datasets.NewInstances("none.json", nil, nil, nil), nil)
	wantError(t, only(t, segmentation.Batches(t.Context(), datasets.NewSegmentation("none", nil, "", 0, nil), 0, 0)), "no images to train on")
	wantError(t, only(t, detection.Batches(t.Context(), none, 0, 0)), "no images to train on")
	for _, parts := range []int{-1, 0, 3} {
		segmentation.Parts, detection.Parts = parts, parts
		want := fmt.Sprintf("parts %d is not between 1 and 2", parts)
		wantError(t, only(t, segmentation.Batches(t.Context(), broken(nil), 0, 0)), want)
		wantError(t, only(t, detection.Batches(t.Context(), upright(4, 32), 0, 0)), want)
	}
}

// only returns the error that is all that a run yields.
func only[I any](t *testing.T, batches iter.Seq2[*Batch[I], error]) (only error) {
	t.Helper()
	for batch, err := range batches {
		if only != nil || batch != nil {
			t.Fatalf("%v, %v after error %v", batch, err, only)
		}
		only = err
	}
	return only
}

func TestLoaderStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	count := 0
	for _, err := range training(2, 1).Batches(ctx, synthetic.Scenes(3, 16, 1).Segmentation(), 0, 0) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			break
		}
		if count++; count == 2 {
			stop()
		}
		if count > 10 {
			t.Fatal("the loader goes on")
		}
	}
	stop()
}
