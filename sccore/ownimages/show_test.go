package ownimages

import (
	"path/filepath"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

// TestShowWithoutWeights: the file of random weights serves what wants a file, and the drawn scene what wants a photograph, for one image and for two.
func TestShowWithoutWeights(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "random.safetensors")
	if err := RandomEncoder(file); err != nil {
		t.Fatal(err)
	}
	if err := synthetic.WriteFolder(dir, synthetic.Objects(2, 64, 1).Images); err != nil {
		t.Fatal(err)
	}
	photos, err := filepath.Glob(filepath.Join(dir, "*", "*.png"))
	if err != nil || len(photos) != 2 {
		t.Fatalf("%q, %v", photos, err)
	}
	scene := filepath.Join(dir, "start", "scene.png")
	if err := DrawScene(scene); err != nil {
		t.Fatal(err)
	}
	photos[1] = scene
	for count, want := range map[int]int{1: 2, 2: 3} {
		all, err := Show(testbackend.Go(t), file, photos[:count], 64)
		if err != nil || len(all) != want {
			t.Errorf("%d images give %d figures, %v", count, len(all), err)
		}
	}
}
