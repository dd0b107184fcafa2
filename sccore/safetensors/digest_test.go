package safetensors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
)

// TestAFlippedBitIsNoticed flips each bit of a small file in turn: the file is refused, or what it says is the same.
func TestAFlippedBitIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.safetensors")
	named := map[string]*tensors.Tensor{"a": tensors.FromValue([]float32{1, 2, 3}), "b": tensors.FromValue([]int32{4})}
	if err := Write(path, named, map[string]string{"position": "7", "note": "x"}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func() (string, error) {
		named, metadata, err := Read(path)
		if err != nil {
			return "", err
		}
		return named["a"].GoStr() + named["b"].GoStr() + metadata["position"] + metadata["note"], nil
	}
	want, err := read()
	if err != nil {
		t.Fatal(err)
	}
	if _, metadata, _ := Read(path); len(metadata) != 2 {
		t.Errorf("metadata %v, want what was written", metadata)
	}
	for at := range content {
		flipped := append([]byte{}, content...)
		flipped[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, flipped, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := read()
		// A flip in the name of the digest's entry makes it a file of others, which is not checked; its content is the same.
		if err == nil && got != want {
			t.Errorf("byte %d: reads %s, want %s", at, got, want)
		}
		if err != nil && (!strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("byte %d: error %v is not one line with the file", at, err)
		}
	}
}
