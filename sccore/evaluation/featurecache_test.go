package evaluation_test

import (
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/semcon/semcon/sccore/evaluation"
)

// TestFeatureCacheRemovesWhatAKillLeft finds two files half written, one of them of the file that it makes.
func TestFeatureCacheRemovesWhatAKillLeft(t *testing.T) {
	dir := t.TempDir()
	left, other := filepath.Join(dir, ".writing-a.features.123"), filepath.Join(dir, ".writing-b.features.123")
	for _, path := range []string{left, other} {
		if err := os.WriteFile(path, []byte("half"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	one := iter.Seq2[evaluation.Patches, error](func(yield func(evaluation.Patches, error) bool) {
		yield(evaluation.Patches{Features: []float32{1, 2}, Labels: []uint8{3}}, nil)
	})
	file, _, err := evaluation.FeatureCache{Dir: dir, Limit: 100}.Open("a", 1, 2, 1, one)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if read, err := file.Read(0); err != nil || read.Features[1] != 2 {
		t.Errorf("%+v, %v", read, err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Errorf("%s is still there", left)
	}
	if _, err := os.Stat(other); err != nil { // Another process may be writing it.
		t.Error(err)
	}
}
