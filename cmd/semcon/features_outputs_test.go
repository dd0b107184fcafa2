package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/safetensors"
)

// photos writes images of several sizes and returns a function that runs the verb on the Go engine.
func photos(t *testing.T, m *fakeMachine) func(stdin string, args ...string) map[string]*tensors.Tensor {
	t.Helper()
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	for i, size := range []image.Point{{40, 30}, {30, 40}, {64, 32}} {
		im := image.NewRGBA(image.Rectangle{Max: size})
		for p := range im.Pix {
			im.Pix[p] = uint8((i + 3) * p / 5)
		}
		var encoded bytes.Buffer
		if err := png.Encode(&encoded, im); err != nil {
			t.Fatal(err)
		}
		write(t, encoded.Bytes(), m.Checkout, "photos", fmt.Sprintf("%d.png", i))
	}
	return func(stdin string, args ...string) map[string]*tensors.Tensor {
		t.Helper()
		c := onGo(semcon(t, m, append([]string{"features", "--weights", "tiny.safetensors", "--out", "f.safetensors", "--size", "32"}, args...)...))
		c.Stdin = strings.NewReader(stdin)
		if _, stderr, status := outcome(t, c); status != 0 {
			t.Fatalf("exit status %d: %s", status, stderr)
		}
		named, _, err := safetensors.Read(filepath.Join(m.Checkout, "f.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(filepath.Join(m.Checkout, "*.partial")); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
		return named
	}
}

func floats(t *testing.T, named map[string]*tensors.Tensor, name string, dims ...int) []float32 {
	t.Helper()
	if named[name] == nil || !slices.Equal(named[name].Shape().Dimensions, dims) {
		t.Fatalf("%s is %v, want %v; there are %d tensors", name, named[name], dims, len(named))
	}
	return tensors.MustCopyFlatData[float32](named[name])
}

func TestFeaturesOfBlocksListsAndWholeImages(t *testing.T) {
	m := newMachine(t)
	run := photos(t, m)
	all := run("", "photos", "--patches", "--layer", "1, 3")
	last := run("", "photos", "--patches")
	if !slices.Equal(floats(t, all, "layer3.class", 3, 64), floats(t, last, "class", 3, 64)) || !slices.Equal(floats(t, all, "layer3.patches", 3, 4, 4, 64), floats(t, last, "patches", 3, 4, 4, 64)) {
		t.Error("the last block's features differ from the transformer's")
	}
	if slices.Equal(floats(t, all, "layer1.class", 3, 64), floats(t, last, "class", 3, 64)) {
		t.Error("the first and the last block have the same features")
	}
	maps := run("", "photos", "--patches", "--class=false", "--resolution", "7")
	floats(t, maps, "patches", 3, 7, 7, 64)
	if maps["class"] != nil {
		t.Error("--class=false writes [CLS]")
	}

	// A list, in its own order, from a file and from standard input.
	paths := "\ufeffphotos/2.png\n\nphotos/0.png\r\n"
	m.Write(t, "list.txt", paths)
	for _, listed := range []map[string]*tensors.Tensor{run("", "list.txt"), run(paths, "-")} {
		class, want := floats(t, listed, "class", 2, 64), floats(t, last, "class", 3, 64)
		for i, x := range class[64:] {
			if !(math.Abs(float64(x-want[i])) <= 1e-5) {
				t.Fatalf("feature %d of the listed image is %v, want %v", i, x, want[i])
			}
		}
	}

	// Whole images keep their aspect: 40×30 becomes 42×32 pixels, which are padded to 48×32.
	whole := run("", "photos", "--patches", "--crop-mode", "whole")
	floats(t, whole, "class", 3, 64)
	floats(t, whole, "patches.0", 4, 6, 64)
	floats(t, whole, "patches.1", 6, 4, 64)
	floats(t, whole, "patches.2", 4, 8, 64)

	// One tensor of maps fits into a .npy.
	_, stderr, status := outcome(t, onGo(semcon(t, m, "features", "photos", "--weights", "tiny.safetensors", "--size", "32", "--class=false", "--patches", "--layer", "2", "--out", "maps.npy")))
	npy, err := os.ReadFile(filepath.Join(m.Checkout, "maps.npy"))
	if status != 0 || err != nil || !bytes.Contains(npy, []byte("'shape': (3, 4, 4, 64)")) || len(npy) != 128+4*3*4*4*64 {
		t.Errorf("exit status %d, %s: %d bytes, %v", status, stderr, len(npy), err)
	}
}

// The makers' settings beside the weights count, and flags before them.
func TestFeaturesArePreprocessedAsTheMakersDo(t *testing.T) {
	m := newMachine(t)
	photos(t, m)
	m.Write(t, "config.json", `{"pretrained_cfg": {"input_size": [3, 48, 48], "interpolation": "bicubic", "crop_pct": 0.9, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}`)
	described := func(args ...string) string {
		t.Helper()
		if _, stderr, status := outcome(t, onGo(semcon(t, m, append([]string{"features", "photos", "--weights", "tiny.safetensors", "--out", "f.safetensors"}, args...)...))); status != 0 {
			t.Fatal(stderr)
		}
		_, metadata, err := safetensors.Read(filepath.Join(m.Checkout, "f.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		return metadata["preprocessing"]
	}
	if got, want := described(), "shorter side resized to 53 px (bicubic), centre crop of 48 px, mean 0.5 0.5 0.5, deviation 0.5 0.5 0.5"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got := described("--size", "32", "--crop", "1", "--interpolation", "bilinear", "--crop-mode", "squash",
		"--layer", "", "--mean", "1,2,3", "--mean", " 0.485, 0.456, 0.406", "--std", "0.229,0.224,0.225")
	if want := "resized to 32×32 px (bilinear), centre crop of 32 px, ImageNet's mean and deviation"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// killed begins a call and kills it after it has written three batches. It returns these, or none if the call was done before the kill.
func killed(t *testing.T, c *exec.Cmd, out string) (batches []string) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); len(batches) < 3 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		batches, _ = filepath.Glob(filepath.Join(out+".partial", "*.safetensors"))
		if _, err := os.Stat(out); err == nil {
			break
		}
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if _, err := os.Stat(out); err == nil {
		return nil
	}
	if len(batches) < 3 {
		t.Fatalf("batches %v in a minute", batches)
	}
	return batches
}

// A killed call goes on where it stopped and writes the same bytes. On a busy machine, the call may be done before the kill; then
// another has twice as many images.
func TestFeaturesGoOnAfterAKill(t *testing.T) {
	m := newMachine(t)
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	out := filepath.Join(m.Checkout, "killed.safetensors")
	call := func(out string) *exec.Cmd {
		return onGo(semcon(t, m, "features", "photos", "--weights", "tiny.safetensors", "--size", "64", "--batch", "3", "--patches", "--out", out))
	}
	images, batches := 0, []string(nil)
	for more := 40; len(batches) == 0; more = images {
		if images >= 40<<5 {
			t.Fatalf("features of %d images are done before the kill", images)
		}
		if err := errors.Join(os.RemoveAll(out), os.RemoveAll(out+".partial")); err != nil {
			t.Fatal(err)
		}
		for i := range more {
			write(t, picture(t, 50+(images+i)%40, color.RGBA{uint8(6 * i), 200, 30, 255}), m.Checkout, "photos", fmt.Sprintf("%04d.png", images+i))
		}
		images += more
		m.Write(t, "photos/0007.png", "no image")
		batches = killed(t, call("killed.safetensors"), out)
	}
	if _, stderr, status := outcome(t, call("whole.safetensors")); status != 0 {
		t.Fatal(stderr)
	}
	want, err := os.ReadFile(filepath.Join(m.Checkout, "whole.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	// What a kill can leave behind, and a batch that was not whole.
	for name, rubbish := range map[string]string{".writing-000000000099.safetensors": "half a batch", filepath.Base(batches[len(batches)-1]): "12345"} {
		if err := os.WriteFile(filepath.Join(out+".partial", name), []byte(rubbish), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stdout, stderr, status := outcome(t, call("killed.safetensors"))
	if status != 0 || !strings.Contains(stdout, fmt.Sprintf(": %d images", images-1)) || !strings.Contains(stderr, "skipped photos/0007.png: ") || strings.Contains(stderr, "anew") {
		t.Errorf("exit status %d, said %q and %q", status, stdout, stderr)
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want the %d of an uninterrupted call: %v", len(got), len(want), err)
	}
	if _, err := os.Stat(out + ".partial"); err == nil {
		t.Error("the partial folder is left")
	}
}

// TestFeaturesRefuseMoreNamesThanAFileHolds: before the work, not after it.
func TestFeaturesRefuseMoreNamesThanAFileHolds(t *testing.T) {
	m := newMachine(t)
	photos(t, m)
	deep := filepath.Join(m.Checkout, "many")
	for range 14 {
		deep = filepath.Join(deep, strings.Repeat("n", 240))
	}
	if err := os.MkdirAll(deep, 0o777); err != nil {
		t.Fatal(err)
	}
	for i := range 4700 { // 16 MB of names.
		if err := os.WriteFile(filepath.Join(deep, fmt.Sprintf("%d.png", i)), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	_, stderr, status := outcome(t, onGo(semcon(t, m, "features", "many", "--weights", "tiny.safetensors", "--size", "32", "--out", "f.safetensors")))
	if status != 2 || !strings.Contains(stderr, "--out f.safetensors: cannot hold the names of 4700 images; want a .npy") {
		t.Errorf("exit status %d: %.300s", status, stderr)
	}
}

// Features of other settings are not mixed, and none of an image that is not finite are written.
func TestFeaturesBeginAnewOrRefuse(t *testing.T) {
	m := newMachine(t)
	photos(t, m)
	m.Write(t, "f[1].npy.partial/settings.json", "{}")
	old, err := json.Marshal(featureBatch{Done: 3, Images: []string{"old.png"}})
	left := filepath.Join(m.Checkout, "f[1].npy.partial", "000000000000.safetensors")
	if err = errors.Join(err, safetensors.Write(left, map[string]*tensors.Tensor{"class": tensors.FromValue([][]float32{{1}})}, map[string]string{"batch": string(old)})); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := outcome(t, onGo(semcon(t, m, "features", "photos", "--weights", "tiny.safetensors", "--size", "32", "--out", "f[1].npy")))
	if status != 0 || !strings.Contains(stdout, "3 images") || !strings.Contains(stderr, "f[1].npy.partial is of other settings or images, and is begun anew") {
		t.Errorf("exit status %d, said %q and %q", status, stdout, stderr)
	}
	values := make([]float32, 3*8*8*3)
	values[8*8*3+5] = float32(math.NaN())
	path := filepath.Join(m.Checkout, "images.safetensors")
	if err := safetensors.Write(path, map[string]*tensors.Tensor{"images": tensors.FromFlatDataAndDimensions(values, 3, 8, 8, 3)}, nil); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status = outcome(t, onGo(semcon(t, m, "features", "images.safetensors", "--weights", "tiny.safetensors", "--out", "n.npy")))
	if status != 1 || stdout != "" || !strings.Contains(stderr, "image 1 of images.safetensors: its [CLS] feature is not finite") {
		t.Errorf("exit status %d, said %q and %q", status, stdout, stderr)
	}
	if _, err := os.Stat(filepath.Join(m.Checkout, "n.npy")); err == nil {
		t.Error("features that are not finite are written")
	}
	for want, args := range map[string][]string{
		"no block 4, only 1 to 3":           {"photos", "--layer", "4"},
		`"two" cannot be read`:              {"photos", "--layer", "1,two"},
		"block 2 is there twice":            {"photos", "--layer", "2,2"},
		"not layer1.class and layer2.class": {"photos", "--layer", "1,2"},
		"nothing to compute":                {"photos", "--class=false"},
		"--resolution 5":                    {"photos", "--resolution", "5"},
		"--crop 2 is not":                   {"photos", "--crop", "2"},
		`--crop-mode "tight"`:               {"photos", "--crop-mode", "tight"},
		"maps of whole images have several": {"photos", "--class=false", "--patches", "--crop-mode", "whole"},
		"--mean: want three numbers":        {"photos", "--mean", "1,2"},
		`--std "1,2,x": "x" cannot be read`: {"photos", "--std", "1,2,x"},
		"--resize -3":                       {"photos", "--resize", "-3"},
		"want at least one image: files, folders, patterns or lists": {},
	} {
		_, stderr, status := outcome(t, onGo(semcon(t, m, append([]string{"features", "--weights", "tiny.safetensors"}, args...)...)))
		if status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit status %d, %q, want %q", args, status, stderr, want)
		}
	}
	m.Write(t, "empty.txt", "\n\n")
	m.Write(t, "binary.txt", "\x00\x01\n")
	for want, args := range map[string][]string{"empty.txt: lists no images": {"empty.txt"}, "binary.txt: line 1 is not a path": {"binary.txt"}, "standard input: lists no images": {"-"}} {
		_, stderr, status := outcome(t, onGo(semcon(t, m, append([]string{"features", "--weights", "tiny.safetensors"}, args...)...)))
		if status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit status %d, %q, want %q", args, status, stderr, want)
		}
	}
}
