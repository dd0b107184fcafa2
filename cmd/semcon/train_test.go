package main

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrainGoesOnAfterKill kills a training with SIGKILL as soon as it has measured step 2, and compares what the next call leaves with a run that was not
// killed.
func TestTrainGoesOnAfterKill(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	m := newMachine(t)
	t.Setenv("GOMLX_BACKEND", "go")
	for i := range 16 {
		m.Write(t, fmt.Sprintf("photos/%02d.png", i), string(picture(t, 30+i%3, color.RGBA{uint8(15 * i), 90, uint8(255 - 13*i), 255})))
	}
	m.Write(t, "mine.yaml", "steps: 4\n")
	train := func() *exec.Cmd {
		return semcon(t, m, "train", "photos", "--profile", "smoke", "--out", "run", "--checkpoint-every", "0s", "--config", m.Path("mine.yaml"), "--set", "encoder=vit-16x1x2p8-grid6", "--set", "batch=4")
	}
	read := func() map[string]string {
		files := map[string]string{}
		for _, name := range []string{"encoder.safetensors", "best.safetensors", "metrics.csv", "events.out.tfevents.semcon", "report.html", "checkpoints/final.safetensors"} {
			content, err := os.ReadFile(m.Path("run", name))
			if err != nil {
				t.Fatal(err)
			}
			files[name] = string(content)
		}
		return files
	}
	if stdout, stderr, status := outcome(t, train()); status != 0 || stdout != "wrote run/encoder.safetensors and run/report.html\n" {
		t.Fatalf("exit status %d: %s%s", status, stdout, stderr)
	}
	want := read()
	if err := os.RemoveAll(m.Path("run")); err != nil {
		t.Fatal(err)
	}
	killed := train()
	killed.Stderr = &killer{at: []byte("step 2: "), kill: func() { killed.Process.Kill() }}
	if err := killed.Run(); err == nil {
		t.Fatal("it ended before it was killed")
	}
	if _, err := os.Stat(m.Path("run", "checkpoints", "final.safetensors")); err == nil {
		t.Fatal("it ended before it was killed")
	}
	if _, stderr, status := outcome(t, train()); status != 0 || strings.Contains(stderr, "step 0: ") {
		t.Fatalf("exit status %d, or it began anew: %s", status, stderr)
	}
	if stdout, stderr, status := outcome(t, train()); status != 0 || stdout != "already finished: run/encoder.safetensors and run/report.html\n" {
		t.Errorf("called again: exit status %d: %s%s", status, stdout, stderr)
	}
	for name, content := range read() {
		if content != want[name] {
			t.Errorf("%s differs", name)
		}
	}
}

// killer kills when it is written a text.
type killer struct {
	seen []byte
	at   []byte
	kill func()
}

func (k *killer) Write(p []byte) (int, error) {
	if k.seen = append(k.seen, p...); bytes.Contains(k.seen, k.at) {
		k.kill()
	}
	return len(p), nil
}

func TestTrainAndShowErrors(t *testing.T) {
	m := newMachine(t)
	m.Write(t, "empty/notes.txt", "x")
	m.Write(t, "one/a.png", string(picture(t, 30, color.White)))
	m.Write(t, "broken.png", "no picture")
	m.Write(t, "pointer.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 88283115\n")
	for i := range 12 {
		m.Write(t, fmt.Sprintf("many/%d.png", i), string(picture(t, 30, color.White)))
	}
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	for _, test := range []struct {
		args   string
		status int
		stderr string
	}{
		{"train", 2, "want at least one image: files, folders, patterns or lists"},
		{"train nowhere", 1, "nowhere: no such file or directory"},
		{"train empty", 1, "empty: contains no .jpg, .jpeg or .png file"},
		{"train one", 1, "one: contains 1 image, training needs 8"},
		{"train one/a.png", 1, "semcon train: one/a.png: contains 1 image, training needs 8"},
		{"train many --set steps=0", 1, "semcon train: --set steps 0 is not at least 1"},
		{"train many --config broken.png", 2, "--config broken.png: is no YAML of settings: yaml: "},
		{"train one --profile quick", 2, `--profile "quick": want full or smoke`},
		{"train one --init nowhere.pth", 1, "--init nowhere.pth: no such file or directory"},
		{"train one --set speed=1", 1, `no key "speed"`},
		{"train one --init pointer.safetensors", 1, "pointer.safetensors: is a Git LFS pointer"},
		{"train none*", 1, "none*: no such file or directory"},
		{"show --weights tiny.safetensors", 2, "want at least one image"},
		{"show broken.png", 2, "--weights FILE is missing"},
		{"train many --set batch=16", 1, "batch 16 would show images twice with the same views: there are 9 images to train on; --set batch=8 fits"},
		{"show broken.png --weights tiny.safetensors --size 225", 2, "semcon show: --size 225 is not a multiple of the transformer's patches of "},
		{"show broken.png --weights nowhere.pth", 1, "--weights nowhere.pth: no such file or directory"},
		{"show broken.png --weights tiny.safetensors", 1, "semcon show: none of the images in broken.png can be read: broken.png: "},
	} {
		t.Run(test.args, func(t *testing.T) {
			stdout, stderr, status := outcome(t, semcon(t, m, strings.Fields(test.args)...))
			if status != test.status || stdout != "" || !strings.Contains(stderr, test.stderr) {
				t.Errorf("exit status %d, want %d; printed %q, %q", status, test.status, stdout, stderr)
			}
			if strings.HasPrefix(test.args, "train") && strings.Contains(stderr, "engine: ") {
				t.Errorf("an engine before the error: %q", stderr)
			}
		})
	}
}

func TestShowDraws(t *testing.T) {
	m := newMachine(t)
	t.Setenv("GOMLX_BACKEND", "go")
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	m.Write(t, "a.png", string(picture(t, 60, color.White)))
	m.Write(t, "b.png", string(picture(t, 50, color.RGBA{200, 30, 30, 255})))
	for images, want := range map[string]string{"a.png": "pca attention", "a.png b.png": "pca nearest attention"} {
		out := "out" + fmt.Sprint(len(images))
		stdout, stderr, status := outcome(t, semcon(t, m, append(strings.Fields("show "+images), "--weights", "tiny.safetensors", "--size", "48", "--out", out)...))
		wrote := ""
		for name := range strings.FieldsSeq(want) {
			wrote += "wrote " + filepath.Join(out, name+".png") + "\n"
		}
		if len(strings.Fields(images)) == 1 {
			wrote += "no nearest.png: it compares each image with the next, and there is one image\n"
		} else {
			wrote += "nearest.png compares each image with the next, so it has no row for b.png\n"
		}
		if status != 0 || stdout != wrote {
			t.Errorf("exit status %d: %s%s", status, stdout, stderr)
		}
	}
	write(t, picture(t, 60, color.RGBA{80, 200, 30, 255}), m.Checkout, "nearest.png")
	_, stderr, status := outcome(t, semcon(t, m, "show", "nearest.png", "--weights", "x", "--out", "."))
	if status != 2 || !strings.Contains(stderr, "nearest.png would replace the input nearest.png") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	if _, stderr, status := outcome(t, semcon(t, m, "show", "--out", "")); status != 2 || !strings.Contains(stderr, "--out is empty: want a folder") {
		t.Errorf("without a folder: exit status %d: %s", status, stderr)
	}
	stdout, stderr, status := outcome(t, semcon(t, m, "show", "--size", "48"))
	if status != 0 || !strings.HasPrefix(stdout, "no image and no weights: pictures/cat.jpg, pictures/astronaut.jpg, and a small encoder") || !strings.Contains(stdout, "wrote pictures/pca.png\n") {
		t.Errorf("without arguments: exit status %d: %s%s", status, stdout, stderr)
	}
}

// TestShowLeavesOutBrokenImages: a folder's other images are drawn, and each broken one is named.
func TestShowLeavesOutBrokenImages(t *testing.T) {
	m := newMachine(t)
	t.Setenv("GOMLX_BACKEND", "go")
	tinyWeights(t, m.Path("tiny.safetensors"))
	m.Write(t, "photos/a.png", string(picture(t, 60, color.White)))
	m.Write(t, "photos/b.png", "no picture")
	m.Write(t, "photos/c.png", string(picture(t, 50, color.Black)))
	m.Write(t, "photos/d.png", "")
	stdout, stderr, status := outcome(t, semcon(t, m, strings.Fields("show photos --weights tiny.safetensors --size 48 --out out")...))
	if status != 0 || !strings.HasSuffix(stdout, "so it has no row for photos/c.png\n") {
		t.Errorf("exit status %d: %s%s", status, stdout, stderr)
	}
	for _, want := range []string{"skipped photos/b.png: is neither JPEG nor PNG\n", "skipped photos/d.png: is empty\n", "skipped 2 of 4 images\n"} {
		if strings.Count(stderr, want) != 1 {
			t.Errorf("%q is missing in %q", want, stderr)
		}
	}
}
