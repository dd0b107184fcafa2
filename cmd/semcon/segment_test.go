package main

import (
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSegment trains models in the smoke profile and segments images with one of them.
func TestSegment(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	m := newMachine(t)
	write(t, picture(t, 40, color.RGBA{200, 40, 40, 255}), m.Checkout, "a.png")
	write(t, picture(t, 70, color.RGBA{40, 200, 40, 255}), m.Checkout, "b.png")
	write(t, []byte("no picture"), m.Checkout, "broken.jpg")
	if _, stderr, status := outcome(t, onGo(semcon(t, m, "run", "fine-tune", "--profile", "smoke", "--only", "*/*/upernet/*"))); status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	models, err := filepath.Glob(filepath.Join(m.Checkout, "out/fine-tune/cells/*/*/upernet/*/model.safetensors"))
	if err != nil || len(models) != 1 {
		t.Fatal(models, err)
	}
	stdout, stderr, status := outcome(t, onGo(semcon(t, m, "segment", "a.png", "broken.jpg", "b.png", "--weights", models[0])))
	if status != 1 || !strings.HasSuffix(stdout, "\nwrote pictures of 2 images into masks\n") || strings.Count(stdout, "\n") != 3 || !strings.HasPrefix(stdout, "a.png: ") || !strings.Contains(stderr, "broken.jpg: is neither JPEG nor PNG") {
		t.Errorf("exit status %d: %s%s", status, stdout, stderr)
	}
	files, err := filepath.Glob(filepath.Join(m.Checkout, "masks", "*"))
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if want := []string{"a_mask.png", "a_overlay.png", "b_mask.png", "b_overlay.png"}; err != nil || !slices.Equal(files, want) {
		t.Errorf("wrote %q, %v", files, err)
	}
	content, err := os.ReadFile(models[0])
	if err != nil {
		t.Fatal(err)
	}
	write(t, content[:len(content)/2], m.Checkout, "half.safetensors")
	tinyWeights(t, filepath.Join(m.Checkout, "encoder.safetensors"))
	for _, c := range []struct {
		status int
		want   string
		args   []string
	}{
		{2, "at least one image", []string{"--weights", models[0]}},
		{2, "--weights FILE is missing", []string{"a.png"}},
		{2, "would both become a_mask.png", []string{"a.png", "x/a.jpg", "--weights", models[0]}},
		{2, "masks/a_mask.png would replace the input masks/a_mask.png", []string{"a.png", "masks/a_mask.png", "--weights", models[0], "--out", "masks"}},
		{1, "half.safetensors", []string{"a.png", "--weights", "half.safetensors"}},
		{1, "encoder.safetensors: holds no segmenter", []string{"a.png", "--weights", "encoder.safetensors"}},
		{1, "none.safetensors", []string{"a.png", "--weights", "none.safetensors"}},
	} {
		_, stderr, status := outcome(t, onGo(semcon(t, m, append([]string{"segment"}, c.args...)...)))
		if status != c.status {
			t.Errorf("%v: exit status %d, want %d", c.args, status, c.status)
		}
		wantLine(t, afterEngine(stderr), "semcon segment: ", c.want)
	}
}
