package experiments

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/experiments/overdispersion"
	"github.com/semcon/semcon/sccore/experiments/theory"
	"github.com/semcon/semcon/sccore/study"
)

// TestDataFor: an experiment does without a folder that has none of its datasets, but for full, which has no synthetic images, and keeps one that has.
func TestDataFor(t *testing.T) {
	empty, cifar := t.TempDir(), t.TempDir()
	for _, file := range []string{"data_batch_1.bin", "test_batch.bin"} {
		if err := os.WriteFile(filepath.Join(cifar, file), make([]byte, 3073), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range All() {
		if e.Name == theory.Name { // It has the data of the encoders that are recorded.
			continue
		}
		full := empty
		if e.GeneratesData || e.DataBySet && e.Name != overdispersion.Name { // Its full profile has synthetic images.
			full = ""
		}
		for _, c := range []struct {
			profile    study.Profile
			data, want string
		}{{study.Quick, empty, ""}, {study.Smoke, "", ""}, {study.Full, empty, full}} {
			if got := e.DataFor(study.Options{Profile: c.profile, Out: t.TempDir(), Data: c.data}); got != c.want {
				t.Errorf("%s, %s: data %q of %q, want %q", e.Name, c.profile, got, c.data, c.want)
			}
		}
		if got := e.DataFor(study.Options{Profile: study.Quick, Out: t.TempDir(), Data: cifar}); (got != "") != (e.Name == effectaug.Name) {
			t.Errorf("%s: data %q of a folder with CIFAR-10 alone", e.Name, got)
		}
	}
}
