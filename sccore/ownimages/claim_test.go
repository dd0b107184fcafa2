package ownimages

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/sccore"
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

// TestARunGoesOnAtItsGauges: with other steps between gauges, the curve and the best encoder would be others than those of a run that was never stopped.
func TestARunGoesOnAtItsGauges(t *testing.T) {
	out := t.TempDir()
	claim := func(every int) error {
		return (&run{Options: Options{Out: out}, images: &Images{}, about: description{Config: []byte(`{}`), Every: every}}).claim(t.Context())
	}
	if err := errors.Join(claim(2), claim(2)); err != nil {
		t.Fatal(err)
	}
	if err := claim(3); err == nil || !strings.Contains(err.Error(), out+": is the folder of a run with another gauge_every") {
		t.Errorf("%v", err)
	}
}

// TestARunDoesNotGoOnWithAnotherWiring: the folder of a run with a loss whose wiring has changed is another run's, and with any other loss its own.
func TestARunDoesNotGoOnWithAnotherWiring(t *testing.T) {
	for _, loss := range sccore.PatchConcentrations {
		config := sccore.Default()
		config.PatchConcentration = loss
		now, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		before := bytes.Replace(now, []byte(`,"wiring":"authors"`), nil, 1)
		for _, written := range [][]byte{now, before} {
			out := t.TempDir()
			claim := func(config []byte) error {
				return (&run{Options: Options{Out: out}, images: &Images{}, about: description{Config: config}}).claim(t.Context())
			}
			if err := claim(written); err != nil {
				t.Fatal(err)
			}
			err := claim(now)
			if same := bytes.Equal(written, now); (err == nil) != same || !same && !strings.Contains(err.Error(), "run with other settings") {
				t.Errorf("%s: %v after %s", loss, err, written)
			}
		}
	}
}

// FuzzRunFile reads any file as the description of a run: it is the run's own, or an error of one line that names the folder.
func FuzzRunFile(f *testing.F) {
	f.Add([]byte(`{"images":"i","seed":3,"config":{}}`))
	f.Add([]byte(`{"images":7}`))
	f.Add([]byte(`{"config":{"batch":"x"},"ignore":null}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, datasets.RunFile), content, 0o666); err != nil {
			t.Fatal(err)
		}
		r := &run{Options: Options{Out: dir}, images: &Images{}, about: description{Images: "i", Config: []byte(`{}`)}}
		err := r.claim(t.Context())
		if err != nil && (strings.ContainsAny(err.Error(), "\n\r") || !strings.Contains(err.Error(), dir) || len(err.Error()) > len(dir)+500) {
			t.Errorf("%q is not one short line that names the folder", err)
		}
	})
}
