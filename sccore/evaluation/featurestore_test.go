package evaluation_test

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	other, fresh := filepath.Join(cut.Dir, "other.features.partial"), filepath.Join(cut.Dir, "fresh.features.partial") // Of other settings.
	old := time.Now().Add(-25 * time.Hour)
	for _, folder := range []string{other, fresh} {
		journal := filepath.Join(folder, "journal.jsonl")
		if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(journal, nil, 0o644), os.Chtimes(folder, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(filepath.Join(other, "journal.jsonl"), old, old); err != nil {
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
	for read, err := range file.All([]int{count - 1}) {
		if err != nil || read.Features[0] != count-1 || read.Labels[0] != count-1 {
			t.Errorf("%+v, %v", read, err)
		}
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
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("a process of other settings that starts again has lost its features: %v", err)
	}
	if file, wanted, err := (evaluation.FeatureCache{Dir: cut.Dir, Limit: 700}).Open(t.Context(), "b", entries(-1)); file != nil || err != nil || wanted != 2*count*9 {
		t.Errorf("%v beyond the limit: wants %g, %v", file, wanted, err)
	}
}

// TestAFeatureStoreTrustsNothing: features go on behind the last batch that is as it was written, whatever was changed.
func TestAFeatureStoreTrustsNothing(t *testing.T) {
	change := func(file string, from, to string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, file)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(content), from, to, 1)), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		damage func(t *testing.T, dir string)
		done   int
	}{
		"nothing":            {func(*testing.T, string) {}, 9},
		"a byte of features": {change("a", "second", "sEcond"), 3},
		"the first features": {change("b", "1", "7"), 0},
		"a number of images": {change("journal.jsonl", `"done":6`, `"done":7`), 3},
		"a name":             {change("journal.jsonl", "x3.png", "y3.png"), 0},
		"a cut-off file":     {func(t *testing.T, dir string) { os.Truncate(filepath.Join(dir, "a"), 14) }, 6},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "f.partial")
			s, err := evaluation.OpenFeatureStore(dir, "settings", "a", "b")
			if err != nil {
				t.Fatal(err)
			}
			for i, values := range []string{"first", "second", "third"} {
				done := 3 * (i + 1)
				b := evaluation.StoredBatch{Done: done, Images: []string{fmt.Sprintf("x%d.png", done)}, Skipped: []string{"Latin-1 \xfc\xe4"}}
				if err := s.Add(b, []byte(values), []byte{byte('1' + i)}); err != nil {
					t.Fatal(err)
				}
			}
			s.Close()
			test.damage(t, dir)
			s, err = evaluation.OpenFeatureStore(dir, "settings", "a", "b")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if s.Done() != test.done {
				t.Errorf("%d images are done, want %d", s.Done(), test.done)
			}
		})
	}
}

// FuzzFeatureJournal reads any journal: batches whose lines and values are whole, and no others.
func FuzzFeatureJournal(f *testing.F) {
	f.Add([]byte(`{"done":3,"images":["x.png"],"grid":[0,0],"sizes":[5],"sums":[1],"line":2}`+"\n"), []byte("first"))
	f.Add([]byte(`{"sizes":[-9],"sums":[0]}`+"\n"), []byte{})
	f.Fuzz(func(t *testing.T, journal, values []byte) {
		dir := t.TempDir()
		for name, content := range map[string][]byte{"settings.json": []byte(`"settings"`), "journal.jsonl": journal, "a": values} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		s, err := evaluation.OpenFeatureStore(dir, "settings", "a")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		size := int64(0)
		for _, b := range s.Batches {
			if b.Sizes[0] < size {
				t.Errorf("a size of %d bytes follows %d", b.Sizes[0], size)
			}
			size = b.Sizes[0]
		}
		if info, err := s.Tensors[0].Stat(); err != nil || info.Size() != size {
			t.Errorf("%d bytes, of batches %d, %v", info.Size(), size, err)
		}
	})
}
