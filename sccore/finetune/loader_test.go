package finetune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

var smallTransform = SegmentationTransform{Scale: Scale{48, 24}, MinRatio: 0.5, MaxRatio: 2, CropSize: 16, CatMaxRatio: 0.75, PhotometricDistortion: true}

// take returns the first batches from a step on.
func take(t *testing.T, l SegmentationLoader, from, count int) (batches []*Batch[SegmentationCrop]) {
	t.Helper()
	for batch, err := range l.Batches(t.Context(), from) {
		if err != nil {
			t.Fatal(err)
		}
		if batches = append(batches, batch); len(batches) == count {
			break
		}
	}
	return batches
}

func TestBatchesDependOnSeedAndStepAlone(t *testing.T) {
	l := SegmentationLoader{Images: synthetic.Scenes(7, 24, 1).Segmentation(), Transform: smallTransform, Loading: Loading{BatchSize: 4, Seed: 9, Workers: 1}}
	want := take(t, l, 0, 6)
	for name, change := range map[string]func(*SegmentationLoader){
		"3 workers": func(l *SegmentationLoader) { l.Workers = 3 }, "all workers": func(l *SegmentationLoader) { l.Workers = 0 },
		"2 workers": func(l *SegmentationLoader) { l.Workers = 2 }, "3 batches at once": func(l *SegmentationLoader) { l.Together = 3 },
		"4 batches and 2 workers at once": func(l *SegmentationLoader) { l.Together, l.Workers = 4, 2 },
	} {
		other := l
		change(&other)
		if !reflect.DeepEqual(take(t, other, 0, 6), want) {
			t.Errorf("%s: other batches", name)
		}
	}
	if got := take(t, l, 3, 3); !reflect.DeepEqual(got, want[3:]) {
		t.Error("a run that resumes at step 3 draws other batches")
	}
	other := l
	other.Together = 2
	if got := take(t, other, 3, 3); !reflect.DeepEqual(got, want[3:]) {
		t.Error("a run that reads two batches at once and resumes at the second draws other batches")
	}
	other.Seed++
	if reflect.DeepEqual(take(t, other, 0, 1), want[:1]) {
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
	a, err := l.Images.Read(want[4].Images[1].Image) // Place 17, in epoch 2.
	if err != nil {
		t.Fatal(err)
	}
	if crop := l.Transform.Apply(a, 9, 2, want[4].Images[1].Image); !reflect.DeepEqual(crop, want[4].Made[1]) {
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
	pixels := make([]uint8, 12)
	for want, a := range map[string]*datasets.SegmentedImage{
		"image3.jpg: damaged":                               nil,
		"x.png: pixel (1, 0) has label 2, want one below 2": {Name: "x.png", Height: 2, Width: 2, Pixels: pixels, Mask: []uint8{0, 2, 0, 0}},
		"x.png: the mask has another size than the image":   {Name: "x.png", Height: 2, Width: 2, Pixels: pixels, Mask: []uint8{0, 0}},
		"x.png: 12 bytes do not make 3×2 pixels":            {Name: "x.png", Height: 2, Width: 3, Pixels: pixels, Mask: make([]uint8, 6)},
	} {
		l := SegmentationLoader{Images: broken(map[int]*datasets.SegmentedImage{3: a}), Transform: smallTransform, Loading: Loading{BatchSize: 5, Workers: 2}}
		for batch, err := range l.Batches(t.Context(), 0) {
			if err == nil || err.Error() != want || batch != nil {
				t.Errorf("%v, error %v, want %s", batch, err, want)
			}
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
	for _, err := range (SegmentationLoader{Images: images, Transform: smallTransform, Loading: Loading{BatchSize: 2}}).Batches(t.Context(), 0) {
		if want := filepath.Join(dir, "JPEGImages/a.jpg") + ": is neither JPEG nor PNG"; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestLoaderStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	count := 0
	for _, err := range (SegmentationLoader{Images: synthetic.Scenes(3, 16, 1).Segmentation(), Transform: smallTransform, Loading: Loading{BatchSize: 2}}).Batches(ctx, 0) {
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

func TestLoaderChecks(t *testing.T) {
	good := SegmentationLoader{Images: synthetic.Scenes(3, 16, 1).Segmentation(), Transform: smallTransform, Loading: Loading{BatchSize: 2}}
	for want, change := range map[string]func(*SegmentationLoader){
		"no images to train on": func(l *SegmentationLoader) { l.Images = nil },
		"batch_size 0":          func(l *SegmentationLoader) { l.BatchSize = 0 },
		"workers -1":            func(l *SegmentationLoader) { l.Workers = -1 },
		"crop_size 0":           func(l *SegmentationLoader) { l.Transform.CropSize = 0 },
	} {
		l := good
		change(&l)
		for _, err := range l.Batches(t.Context(), 0) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	}
}
