package evaluation_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
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
		"a byte of features": {change("000000001.batch", "second", "sEcond"), 3},
		"the first features": {change("000000000.batch", "1", "7"), 0},
		"a number of images": {change("000000001.batch", `"done":6`, `"done":7`), 3},
		"a name":             {change("000000000.batch", "x3.png", "y3.png"), 0},
		"a cut-off file":     {func(t *testing.T, dir string) { os.Truncate(filepath.Join(dir, "000000002.batch"), 14) }, 6},
		"another's place": {func(t *testing.T, dir string) {
			os.Rename(filepath.Join(dir, "000000002.batch"), filepath.Join(dir, "000000001.batch"))
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "f.partial")
			s, err := evaluation.OpenFeatureStore(dir, "settings")
			if err != nil {
				t.Fatal(err)
			}
			for i, values := range []string{"first", "second", "third"} {
				done := 3 * (i + 1)
				b := evaluation.StoredBatch{Done: done, Images: []string{fmt.Sprintf("x%d.png", done), "z.png"}, Skipped: []string{"Latin-1 \xfc\xe4"}}
				if err := s.Add(b, []byte(values), []byte{byte('1' + i)}); err != nil {
					t.Fatal(err)
				}
			}
			s.Close()
			test.damage(t, dir)
			s, err = evaluation.OpenFeatureStore(dir, "settings")
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

// FuzzStoredBatch reads any batch: one that is whole, and no other.
func FuzzStoredBatch(f *testing.F) {
	f.Add([]byte(`{"done":1,"images":["x.png"],"grid":[0,0],"sizes":[5]}` + "\nfirst"))
	f.Add([]byte(`{"sizes":[-9]}` + "\n"))
	f.Add([]byte(`{"done":1,"images":["x.png"],"sizes":[9,-4]}` + "\nfirst"))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		sum := fmt.Sprintf("%08x\n", crc32.ChecksumIEEE(content))
		for name, content := range map[string]string{"settings.json": `"settings"`, "000000000.batch": sum + string(content)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		s, err := evaluation.OpenFeatureStore(dir, "settings")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for n, b := range s.Batches {
			for i, size := range b.Sizes {
				var values bytes.Buffer
				if err := s.Copy(&values, n, i, -1); err != nil || values.Len() != size {
					t.Errorf("%d bytes of %d, %v", values.Len(), size, err)
				}
			}
		}
	})
}
