package evaluation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/evaluation"
)

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
