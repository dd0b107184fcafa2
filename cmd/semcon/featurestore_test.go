package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dsnet/try"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/weights"
)

// threeBatches writes features of nine images in three batches, and returns their folder.
func threeBatches(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "f.partial")
	err := ended(func() {
		s := openFeatureStore(dir, "settings")
		for done := 3; done <= 9; done += 3 {
			b := featureBatch{Done: done, Images: []string{fmt.Sprintf("x%d.png", done)}, Skipped: []string{"Latin-1 \xfc\xe4"}}
			s.add(b, map[string]*tensors.Tensor{"a": tensors.FromFlatDataAndDimensions([]float32{float32(done), 1}, 1, 2)})
		}
		s.close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAFeatureStoreTrustsNothing: features go on behind the last batch that is as it was written, whatever was changed.
func TestAFeatureStoreTrustsNothing(t *testing.T) {
	change := func(file string, from, to string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, file+".safetensors")
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(content), from, to, 1)
			if changed == string(content) {
				t.Fatalf("%s has no %q", file, from)
			}
			if err := os.WriteFile(path, []byte(changed), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	const first, second, third = "000000000000", "000000000003", "000000000006"
	for name, test := range map[string]struct {
		damage func(t *testing.T, dir string)
		done   int
	}{
		"nothing":            {func(*testing.T, string) {}, 9},
		"a byte of features": {change(second, "\x80\x3f", "\x81\x3f"), 3},
		"the first features": {change(first, "\x40\x40", "\x41\x40"), 0},
		"a number of images": {change(second, `\"Done\":6`, `\"Done\":7`), 3},
		"a name":             {change(first, "x3.png", "y3.png"), 0},
		"a cut-off file":     {func(t *testing.T, dir string) { os.Truncate(filepath.Join(dir, third+".safetensors"), 140) }, 6},
	} {
		t.Run(name, func(t *testing.T) {
			dir := threeBatches(t)
			test.damage(t, dir)
			err := ended(func() {
				s := openFeatureStore(dir, "settings")
				defer s.close()
				if s.done() != test.done || s.renewed {
					t.Errorf("%d images are done, want %d; renewed: %t", s.done(), test.done, s.renewed)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// FuzzFeatureBatch reads any file in the place of a batch: it is whole, or the batches end there.
func FuzzFeatureBatch(f *testing.F) {
	f.Add([]byte("{}"))
	f.Add([]byte("\x20\x00\x00\x00\x00\x00\x00\x00" + `{"__metadata__":{"batch":"{}"}}  `))
	f.Add([]byte("\x28\x00\x00\x00\x00\x00\x00\x00" + `{"__metadata__":{"batch":"{\"Done\":-3}"}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := threeBatches(t)
		if err := os.WriteFile(filepath.Join(dir, "000000000003.safetensors"), content, 0o666); err != nil {
			t.Fatal(err)
		}
		err := ended(func() {
			s := openFeatureStore(dir, "settings")
			defer s.close()
			for i, b := range s.batches[1:] {
				if b.Done <= s.batches[i].Done {
					t.Errorf("%d images are done after %d", b.Done, s.batches[i].Done)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestFeaturesAreWrittenInLinearTime: each tensor of each batch is read by itself, and a batch that was changed meanwhile is named.
func TestFeaturesAreWrittenInLinearTime(t *testing.T) {
	dir, wanted := t.TempDir(), map[string][]float32{}
	err := ended(func() {
		s := openFeatureStore(filepath.Join(dir, "f.partial"), "settings")
		defer s.close()
		for done := 1; done <= 4; done++ {
			named := map[string]*tensors.Tensor{}
			for i := range 64 {
				values := slices.Repeat([]float32{float32(done), float32(i)}, 1<<13)
				named[fmt.Sprint(i)] = tensors.FromFlatDataAndDimensions(values, 2, 1<<13)
				wanted[fmt.Sprint(i)] = append(wanted[fmt.Sprint(i)], values...)
			}
			s.add(featureBatch{Done: done}, named)
		}
		c := featureCall{Out: filepath.Join(dir, "f.safetensors"), vit: vitFile{Import: &weights.Import{}}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c.write(s, nil, "none")
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 64<<20 {
			t.Errorf("16 MiB of features took %d bytes of memory", taken)
		}
		got, _ := try.E2(safetensors.Read(c.Out))
		for name, values := range wanted {
			if !got[name].Equal(tensors.FromFlatDataAndDimensions(values, 8, 1<<13)) {
				t.Errorf("tensor %s differs", name)
			}
		}
		try.E(os.Truncate(s.batches[2].file, 1<<21))
		c.write(s, nil, "none")
	})
	if err == nil || !strings.Contains(err.Error(), "000000000002.safetensors: ") {
		t.Errorf("a damaged batch: %v", err)
	}
}
