package main

import (
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAttention(t *testing.T) {
	m := newMachine(t)
	write(t, picture(t, 40, color.RGBA{200, 40, 40, 255}), m.Checkout, "a.png")
	write(t, picture(t, 70, color.RGBA{40, 200, 40, 255}), m.Checkout, "b.png")
	write(t, []byte("no picture"), m.Checkout, "broken.jpg")
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	for _, out := range []string{"maps.png", "maps.pdf"} {
		stdout, stderr, status := outcome(t, onGo(semcon(t, m, "attention", "a.png", "b.png", "--weights", "tiny.safetensors", "--size", "16", "--self", "1", "--out", out)))
		if status != 0 || !strings.HasPrefix(stdout, "wrote "+out+": 1 map of 2 images") {
			t.Fatalf("exit status %d: %s%s", status, stdout, stderr)
		}
		if info, err := os.Stat(filepath.Join(m.Checkout, out)); err != nil || info.Size() < 1000 {
			t.Error(info, err)
		}
	}
	// As semcon show, it skips and names what it cannot read.
	stdout, stderr, status := outcome(t, onGo(semcon(t, m, "attention", "a.png", "broken.jpg", "--weights", "tiny.safetensors", "--size", "16")))
	if status != 0 || !strings.Contains(stdout, "of 1 image,") || !strings.Contains(stderr, "skipped broken.jpg: is neither JPEG nor PNG") {
		t.Errorf("a damaged image: exit status %d: %s%s", status, stdout, stderr)
	}
	_, stderr, status = outcome(t, onGo(semcon(t, m, "attention", "broken.jpg", "--weights", "tiny.safetensors", "--size", "16")))
	if status != 1 || !strings.HasSuffix(stderr, "semcon attention: none of the images in broken.jpg can be read: broken.jpg: is neither JPEG nor PNG\n") {
		t.Errorf("damaged images alone: exit status %d: %s", status, stderr)
	}
	for _, c := range []struct {
		status int
		want   string
		args   []string
	}{
		{2, "at least one image", []string{"--weights", "tiny.safetensors"}},
		{2, "--weights FILE is missing", []string{"a.png"}},
		{2, "--self -1", []string{"a.png", "--weights", "tiny.safetensors", "--self", "-1"}},
		{2, "--out maps.jpg: want a file that ends with", []string{"a.png", "--weights", "tiny.safetensors", "--out", "maps.jpg"}},
		{2, "--size 15 is not a multiple", []string{"a.png", "--weights", "tiny.safetensors", "--size", "15"}},
		{1, "none.safetensors", []string{"a.png", "--weights", "none.safetensors"}},
	} {
		_, stderr, status := outcome(t, onGo(semcon(t, m, append([]string{"attention"}, c.args...)...)))
		if status != c.status {
			t.Errorf("%v: exit status %d, want %d", c.args, status, c.status)
		}
		wantLine(t, afterEngine(stderr), "semcon attention: ", c.want)
	}
}
