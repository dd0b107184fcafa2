package finetune

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
)

// wantError reports an error that is not one line with a text.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line with %q", err, want)
	}
}

func TestDetectionBatches(t *testing.T) {
	images, one := upright(10, 32), tinyDetection()
	one.Transform.Long, one.MaskSize = 48, 8
	from := func(c DetectionTraining, from, count int) []*Batch[DetectionImage] {
		t.Helper()
		return take(t, c.Batches(t.Context(), images, 3, from), count)
	}
	want := from(one, 0, 12) // Two epochs: 5 images of each canvas are 3 batches.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for workers := 1; workers <= 3; workers += 2 {
		runtime.GOMAXPROCS(workers)
		for _, parts := range []int{1, 5} {
			other := one
			other.Batch, other.Parts = 2*parts, parts
			if !reflect.DeepEqual(from(other, 0, 12), want) {
				t.Errorf("%d parts, %d workers: other batches", parts, workers)
			}
		}
	}
	if !reflect.DeepEqual(from(one, 7, 5), want[7:]) {
		t.Error("a run that resumes at part 7 draws other batches")
	}
	for epoch := range 2 {
		var seen []int
		canvases := map[datasets.Size]int{}
		for _, batch := range want[6*epoch : 6*epoch+6] {
			canvases[batch.Canvas]++
			for _, at := range batch.Images {
				seen = append(seen, at.Image)
				if im := images.Image(at.Image); (im.Width >= im.Height) != (batch.Canvas.Width >= batch.Canvas.Height) {
					t.Errorf("image %d of %d×%d on canvas %v", at.Image, im.Width, im.Height, batch.Canvas)
				}
			}
			for _, m := range batch.Made {
				if area := batch.Canvas.Height * batch.Canvas.Width; len(batch.Made) != 2 || len(m.Pixels) != 3*area || len(m.Boxes) != 3*4 || len(m.Masks) != 3*8*8 {
					t.Errorf("%d images; %d pixels, %d numbers of boxes, %d of masks", len(batch.Made), len(m.Pixels), len(m.Boxes), len(m.Masks))
				}
			}
		}
		slices.Sort(seen)
		if seen = slices.Compact(seen); len(seen) != 10 || len(canvases) != 2 || canvases[datasets.Size{Height: 32, Width: 48}] != 3 {
			t.Errorf("epoch %d: %d images on %v", epoch, len(seen), canvases)
		}
	}
	places := func(batch *Batch[DetectionImage]) [2]int { return [2]int{batch.Images[0].Image, batch.Images[1].Image} }
	if places(want[0]) == places(want[6]) && places(want[1]) == places(want[7]) && places(want[2]) == places(want[8]) {
		t.Error("both epochs have one order")
	}
	objects, err := want[0].Made[0].Drawn(want[0].Canvas)
	if err != nil || len(objects) == 0 {
		t.Fatal(objects, err)
	}
	drawn := 0
	for _, o := range objects { // What is drawn of a mask lies in its box.
		b := o.Mask.Box()
		if drawn += o.Mask.Area(); o.Mask.Area() == 0 { // A crop has left a corner of the box.
			continue
		}
		if b[0] < o.Box[0]-2 || b[1] < o.Box[1]-2 || b[0]+b[2] > o.Box[2]+2 || b[1]+b[3] > o.Box[3]+2 {
			t.Errorf("mask in %v, box %v", b, o.Box)
		}
	}
	if drawn < 100 {
		t.Errorf("%d pixels of %d objects", drawn, len(objects))
	}
}

func TestObjectsThatAreTrainedOn(t *testing.T) {
	square := func(x, y float64) datasets.InstanceMask {
		return datasets.InstanceMask{Polygons: [][]float64{{x, y, x + 4, y, x + 4, y + 4, x, y + 4}}}
	}
	at := func(id int64, box [4]float64, area float64, crowd bool, mask datasets.InstanceMask) datasets.Annotation {
		return datasets.Annotation{ID: id, Image: 1, Category: 7, Box: box, Area: area, Crowd: crowd, Mask: mask}
	}
	make := func(annotations ...datasets.Annotation) *datasets.ObjectImages {
		truth := datasets.NewInstances("in.json", []datasets.InstanceImage{{ID: 1, Height: 20, Width: 20}}, []datasets.ObjectCategory{{ID: 9, Name: "dog"}, {ID: 2, Name: "cow"}, {ID: 7, Name: "cat"}}, annotations)
		return datasets.NewObjectImages("set", "set", truth, nil)
	}
	objects, err := objectsOf(make(
		at(1, [4]float64{2, 2, 4, 4}, 16, false, square(2, 2)), at(2, [4]float64{2, 2, 4, 4}, 16, true, square(2, 2)), at(3, [4]float64{2, 2, 4, 0.5}, 2, false, square(2, 2)),
		at(4, [4]float64{2, 2, 4, 4}, 0, false, square(2, 2)), at(5, [4]float64{20, 2, 4, 4}, 16, false, square(2, 2)), at(6, [4]float64{18, 2, 4, 4}, 16, false, square(18, 2)),
	), 0)
	if err != nil || len(objects) != 2 || objects[0].Class != 2 || objects[0].Box != [4]float64{2, 2, 6, 6} || objects[1].Box != [4]float64{18, 2, 22, 6} || objects[1].Mask.Area() != 8 {
		t.Errorf("%+v, %v; want annotations 1 and 6", objects, err)
	}
	_, err = objectsOf(make(at(9, [4]float64{2, 2, 4, 4}, 16, false, datasets.InstanceMask{})), 0)
	wantError(t, err, "in.json: annotation 9: it has no segmentation")
}

func TestDetectionLoaderErrors(t *testing.T) {
	images := upright(10, 32)
	truth := *images.Truth
	truth.Images = slices.Clone(truth.Images)
	truth.Images[0].Height = 31
	images = datasets.NewObjectImages("set", "set", &truth, func(i int) (*datasets.SegmentedImage, error) {
		return &datasets.SegmentedImage{Name: "scene.jpg", Height: 32, Width: 32, Pixels: make([]uint8, 3*32*32)}, nil
	})
	var last error
	for _, err := range tinyDetection().Batches(t.Context(), images, 3, 0) {
		last = err
	}
	wantError(t, last, "scene.jpg: image ")
}
