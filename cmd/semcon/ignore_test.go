package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/safetensors"
)

// TestIgnoredKeysAreSaid computes features with DINOv3's weights of transformers, to which a key is added that nobody knows.
func TestIgnoredKeysAreSaid(t *testing.T) {
	m := newMachine(t)
	from := filepath.Join("..", "..", "sccore", "weights", "testdata", "families", "dinov3.transformers")
	named, _, err := safetensors.Read(filepath.Join(from, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	named["embeddings.extra"] = tensors.FromValue([]float32{1, 2})
	config, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	m.Write(t, "v3/config.json", string(config))
	if err := safetensors.Write(filepath.Join(m.Checkout, "v3", "model.safetensors"), named, nil); err != nil {
		t.Fatal(err)
	}
	pixels := make([]float32, 2*8*8*3)
	images := func(name string) {
		if err := safetensors.Write(filepath.Join(m.Checkout, name), map[string]*tensors.Tensor{"images": tensors.FromFlatDataAndDimensions(pixels, 2, 8, 8, 3)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	images("two.safetensors")
	pixels[8*8*3+7] = float32(math.NaN())
	images("one.safetensors")
	features := func(of string, more ...string) (stdout, stderr string, status int) {
		return outcome(t, onGo(semcon(t, m, append([]string{"features", of, "--weights", "v3/model.safetensors", "--out", "f.safetensors", "--batch", "1"}, more...)...)))
	}
	if _, stderr, status := features("two.safetensors"); status != 1 || !strings.Contains(stderr, "key embeddings.extra is not understood; --ignore embeddings.extra leaves it out") {
		t.Errorf("exit status %d, said %q", status, stderr)
	}
	// The second image of one is broken, so the first is kept for a call with the same pattern.
	for _, call := range []struct {
		pattern string
		anew    bool
	}{{"*.extra", false}, {"*.extra", false}, {"*extra", true}} {
		_, stderr, status := features("one.safetensors", "--ignore", call.pattern)
		if status != 1 || !strings.Contains(stderr, "not finite") || strings.Contains(stderr, "begun anew") != call.anew {
			t.Errorf("--ignore %s: exit status %d, said %q", call.pattern, status, stderr)
		}
	}
	if stdout, stderr, status := features("two.safetensors", "--ignore", "*.extra"); status != 0 || !strings.Contains(stdout, "2 images, 24 features each, from vit-24x2x2p4-reg4-ls-qv-rope100-eps0.00001") {
		t.Errorf("exit status %d, said %q and %q", status, stdout, stderr)
	}
	_, metadata, err := safetensors.Read(filepath.Join(m.Checkout, "f.safetensors"))
	if err != nil || metadata["ignored"] != "embeddings.extra" {
		t.Errorf("metadata %v, %v", metadata, err)
	}
	if stdout, stderr, status := outcome(t, onGo(semcon(t, m, "import", "v3/model.safetensors", "--ignore", "*.extra", "--out", "v3.safetensors"))); status != 0 ||
		!strings.Contains(stdout, "ignored          1  embeddings.extra") {
		t.Errorf("exit status %d, said %q and %q", status, stdout, stderr)
	}
	_, metadata, err = safetensors.Read(filepath.Join(m.Checkout, "v3.safetensors"))
	if err != nil || metadata["ignored"] != "embeddings.extra" {
		t.Errorf("metadata %v, %v", metadata, err)
	}
}
