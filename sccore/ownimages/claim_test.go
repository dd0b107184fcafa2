package ownimages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/sccore/datasets"
)

// TestARunDoesNotGoOnWithOtherImages: an image of equal size in the place of another one ends the run, a new time alone does not.
func TestARunDoesNotGoOnWithOtherImages(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "a.png")
	claim := func() error {
		images, err := datasets.OpenImageFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		r := &run{Options: Options{Out: out}, images: &Images{folders: []*datasets.ImageFolder{images}}, about: description{Images: images.Identity, Config: []byte(`{}`)}}
		return r.claim(t.Context())
	}
	put(t, path, []byte("one image"))
	if err := claim(); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	if err := claim(); err != nil {
		t.Errorf("a new time: %v", err)
	}
	put(t, path, []byte("two image"))
	if err := claim(); err == nil || !strings.Contains(err.Error(), out+": is the folder of a run whose images have changed since") {
		t.Errorf("a changed image: %v", err)
	}
}

// FuzzRunFile reads any file as the description of a run: it is the run's own, or an error of one line that names the folder.
func FuzzRunFile(f *testing.F) {
	f.Add([]byte(`{"images":"i","seed":3,"config":{}}`))
	f.Add([]byte(`{"images":7}`))
	f.Add([]byte(`{"config":{"batch":"x"},"ignore":null}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, runFile), content, 0o666); err != nil {
			t.Fatal(err)
		}
		r := &run{Options: Options{Out: dir}, images: &Images{}, about: description{Images: "i", Config: []byte(`{}`)}}
		err := r.claim(t.Context())
		if err != nil && (strings.ContainsAny(err.Error(), "\n\r") || !strings.Contains(err.Error(), dir) || len(err.Error()) > len(dir)+500) {
			t.Errorf("%q is not one short line that names the folder", err)
		}
	})
}
