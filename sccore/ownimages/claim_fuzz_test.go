package ownimages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
