package evaluation_test

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/semcon/semcon/sccore/evaluation"
)

// TestFeatureCacheGoesOnAfterAFailure stops the computation of a file after its first batch, leaves half a batch behind as a kill does, and compares the file that
// the next call makes with one that was made at once.
func TestFeatureCacheGoesOnAfterAFailure(t *testing.T) {
	const count = 2*evaluation.EncodeBatch + 3
	begun := -1
	entries := func(fail int) evaluation.FeatureEntries {
		return evaluation.FeatureEntries{Count: count, Features: 2, Labels: 1, Compute: func(from int) iter.Seq2[evaluation.Patches, error] {
			begun = from
			return func(yield func(evaluation.Patches, error) bool) {
				for i := from; i < count; i++ {
					if i == fail {
						yield(evaluation.Patches{}, errors.New("stopped"))
						return
					}
					if !yield(evaluation.Patches{Features: []float32{float32(i), -1}, Labels: []uint8{uint8(i)}}, nil) {
						return
					}
				}
			}
		}}
	}
	whole, cut := evaluation.FeatureCache{Dir: t.TempDir(), Limit: 1e6}, evaluation.FeatureCache{Dir: t.TempDir(), Limit: 1e6}
	if _, _, err := whole.Open(t.Context(), "a", entries(-1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := cut.Open(t.Context(), "a", entries(evaluation.EncodeBatch+2)); err == nil || err.Error() != "stopped" {
		t.Fatal(err)
	}
	values, err := os.OpenFile(filepath.Join(cut.Dir, "a.features.partial", "entries"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := values.WriteString("half a batch"); err != nil {
		t.Fatal(err)
	}
	values.Close()
	other := filepath.Join(cut.Dir, "other.features.partial") // Of settings that have changed since.
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	file, _, err := cut.Open(t.Context(), "a", entries(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if begun != evaluation.EncodeBatch {
		t.Errorf("the second call begins with entry %d", begun)
	}
	if read, err := file.Read(count - 1); err != nil || read.Features[0] != count-1 || read.Labels[0] != count-1 {
		t.Errorf("%+v, %v", read, err)
	}
	var made [2]string
	for i, cache := range []evaluation.FeatureCache{whole, cut} {
		content, err := os.ReadFile(filepath.Join(cache.Dir, "a.features"))
		if err != nil {
			t.Fatal(err)
		}
		made[i] = string(content)
	}
	if made[0] != made[1] {
		t.Error("the files differ")
	}
	for _, left := range []string{filepath.Join(cut.Dir, "a.features.partial"), other} {
		if _, err := os.Stat(left); err == nil {
			t.Errorf("%s is left", left)
		}
	}
	if file, wanted, err := (evaluation.FeatureCache{Dir: cut.Dir, Limit: 700}).Open(t.Context(), "b", entries(-1)); file != nil || err != nil || wanted != 2*count*9 {
		t.Errorf("%v beyond the limit: wants %g, %v", file, wanted, err)
	}
}
