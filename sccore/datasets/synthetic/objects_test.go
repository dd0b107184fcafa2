package synthetic_test

import (
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

// TestInstancesAreTheScenes: masks cover exactly the pixels of objects, each with its class.
func TestInstancesAreTheScenes(t *testing.T) {
	const n, size = 6, 32
	scenes, objects := synthetic.Scenes(n, size, 3), synthetic.Scenes(n, size, 3).Instances()
	if objects.Len() != n || objects.Truth.SkippedCount != 0 || len(objects.Truth.Categories) != 6 {
		t.Fatalf("%d images, %d skipped", objects.Len(), objects.Truth.SkippedCount)
	}
	for i := range n {
		a, err := objects.Read(i)
		if err != nil || string(a.Pixels) != string(scenes.At(i)) {
			t.Fatalf("image %d: %v", i, err)
		}
		classes := make([]uint8, size*size)
		for _, object := range objects.Annotations(i) {
			mask, err := object.Mask.Runs(datasets.Size{Height: size, Width: size})
			if err != nil || mask.Box() != object.Box || float64(mask.Area()) != object.Area || object.Area == 0 {
				t.Errorf("%+v: %v", object, err)
			}
			for p, inside := range mask.Pixels() {
				if inside {
					classes[p] += uint8(object.Category)
				}
			}
		}
		if string(classes) != string(scenes.ClassMask[i*size*size:(i+1)*size*size]) {
			t.Errorf("image %d: the masks differ from the scene's masks", i)
		}
	}
}
