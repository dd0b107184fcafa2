package safetensors

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
)

// FuzzRead reads an arbitrary file within a bound of memory: 16 MiB, and a few objects of 100 bytes for each byte. Run it with -fuzzminimizetime 1x.
func FuzzRead(f *testing.F) {
	python, err := os.ReadFile("testdata/python.safetensors")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(python)
	f.Add(file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"__metadata__":{"k":"v"}}`, 4))
	f.Add(file(`{}`, 0))
	f.Fuzz(func(t *testing.T, content []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		entries, _, err := Open(bytes.NewReader(content), int64(len(content)))
		for name, entry := range entries {
			tensor, wrong := entry.Read()
			if wrong == nil && (err != nil || tensor.ByteSize() > int64(len(content))) {
				t.Errorf("%s: %d bytes from a file of %d (%v)", name, tensor.ByteSize(), len(content), err)
			}
		}
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 16<<20+600*uint64(len(content)) {
			t.Errorf("%d bytes took %d of memory", len(content), taken)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 2000) {
			t.Errorf("%.200q… is not one line", err)
		}
	})
}

// FuzzCheckpointMetadata writes any metadata: it is refused, or read back as it was.
func FuzzCheckpointMetadata(f *testing.F) {
	f.Add("position", `{"done":3}`, "note", "[\"a\\nb\"]")
	f.Add(digestKey, noDigest, "__metadata__", "\x00")
	f.Add("a", string(digestEntry(noDigest)), "a", "\xff")
	f.Add("", "", string(digestEntry(noDigest)), "\u2028<&>")
	f.Fuzz(func(t *testing.T, key, value, other, text string) {
		path := filepath.Join(t.TempDir(), "checkpoint.safetensors")
		metadata := map[string]string{key: value, other: text}
		err := Write(path, map[string]*tensors.Tensor{"a": tensors.FromValue([]float32{1, 2})}, metadata)
		if err != nil {
			if _, missing := os.Stat(path); missing == nil || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%v, and the file is there: %v", err, missing == nil)
			}
			return
		}
		named, read, err := Read(path)
		if err != nil || !maps.Equal(read, metadata) || len(named) != 1 {
			t.Errorf("wrote %q, read %q, %v", metadata, read, err)
		}
	})
}
