package main

import (
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDetect trains a detector in the smoke profile and finds objects with it.
func TestDetect(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	m := newMachine(t)
	write(t, picture(t, 40, color.RGBA{200, 40, 40, 255}), m.Checkout, "000000000012.png")
	write(t, picture(t, 70, color.RGBA{40, 200, 40, 255}), m.Checkout, "7.png")
	write(t, []byte("no picture"), m.Checkout, "9.jpg")
	if _, stderr, status := outcome(t, onGo(semcon(t, m, "run", "detection", "--profile", "smoke"))); status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	models, err := filepath.Glob(filepath.Join(m.Checkout, "out/detection/cells/*/*/*/model.safetensors"))
	if err != nil || len(models) != 1 {
		t.Fatal(models, err)
	}
	stdout, stderr, status := outcome(t, onGo(semcon(t, m, "detect", "000000000012.png", "9.jpg", "7.png", "--weights", models[0], "--score", "0")))
	if status != 1 || !strings.HasSuffix(stdout, "\nwrote pictures of 2 images into detections\n") || strings.Count(stdout, "\n") != 3 || !strings.HasPrefix(stdout, "000000000012.png: class ") || !strings.Contains(stderr, "9.jpg: is neither JPEG nor PNG") {
		t.Errorf("exit status %d: %s%s", status, stdout, stderr)
	}
	files, err := filepath.Glob(filepath.Join(m.Checkout, "detections", "*"))
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if want := []string{"000000000012_objects.png", "7_objects.png", "results.json"}; err != nil || !slices.Equal(files, want) {
		t.Errorf("wrote %q, %v", files, err)
	}
	// What it writes is what the judge reads.
	write(t, []byte(`{"images": [{"id": 12, "height": 45, "width": 40}, {"id": 7, "height": 75, "width": 70}], "categories": [{"id": 1, "name": "class 0"}],
		"annotations": [{"id": 1, "image_id": 12, "category_id": 1, "bbox": [0, 0, 40, 40], "area": 1600, "segmentation": [[0, 0, 40, 0, 40, 40, 0, 40]]}]}`),
		m.Checkout, "truth.json")
	if stdout, stderr, status := outcome(t, semcon(t, m, "evaluate", "coco", "--annotations", "truth.json", "--detections", "detections/results.json")); status != 0 ||
		!strings.Contains(stdout, "masks") {
		t.Errorf("exit status %d: %s%s", status, stdout, stderr)
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
		{2, "--weights FILE is missing", []string{"7.png"}},
		{2, "--score 2", []string{"7.png", "--weights", models[0], "--score", "2"}},
		{2, "would both become 7_objects.png", []string{"7.png", "x/7.jpg", "--weights", models[0]}},
		{1, "half.safetensors", []string{"7.png", "--weights", "half.safetensors"}},
		{1, "encoder.safetensors: holds no detector", []string{"7.png", "--weights", "encoder.safetensors"}},
		{1, "none.safetensors", []string{"7.png", "--weights", "none.safetensors"}},
	} {
		_, stderr, status := outcome(t, onGo(semcon(t, m, append([]string{"detect"}, c.args...)...)))
		if status != c.status {
			t.Errorf("%v: exit status %d, want %d", c.args, status, c.status)
		}
		wantLine(t, afterEngine(stderr), "semcon detect: ", c.want)
	}
}

func TestImageIDs(t *testing.T) {
	for _, c := range []struct {
		stems []string
		want  []int64
	}{
		{[]string{"000000000139", "7"}, []int64{139, 7}}, {[]string{"cat", "7"}, []int64{1, 2}}, {[]string{"07", "7"}, []int64{1, 2}},
	} {
		if got := imageIDs(c.stems); !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.stems, got, c.want)
		}
	}
}
