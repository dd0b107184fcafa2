package ownimages

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

// TestShowTheExample: the small encoder serves what wants a file, and the photographs what wants some, for one image and for two. Together they are below 2 MB.
func TestShowTheExample(t *testing.T) {
	dir := t.TempDir()
	shown, file, err := Example(filepath.Join(dir, "start"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() > 2e6 {
		t.Errorf("%s is above 2 MB, or %v", file, err)
	}
	if err := synthetic.WriteFolder(dir, synthetic.Objects(2, 64, 1).Images); err != nil {
		t.Fatal(err)
	}
	photos, err := filepath.Glob(filepath.Join(dir, "*", "*.png"))
	if err != nil || len(photos) != 2 {
		t.Fatalf("%q, %v", photos, err)
	}
	photos[1] = shown[0]
	for count, want := range map[int]int{1: 2, 2: 3} {
		all, err := Show(testbackend.Go(t), file, photos[:count], 64)
		if err != nil || len(all) != want {
			t.Errorf("%d images give %d figures, %v", count, len(all), err)
		}
	}
}
