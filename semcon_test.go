package semcon

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/weights"
)

// TestMain runs on the pure-Go engine, which needs no plugin.
func TestMain(m *testing.M) {
	os.Setenv("GOMLX_BACKEND", "go")
	os.Exit(m.Run())
}

// tiny writes a small transformer whose weights are a sine.
func tiny(folder string) (file string, vit encoder.ViT, store *model.Store) {
	vit, err := encoder.ViTByName("vit-tiny")
	if err != nil {
		panic(err)
	}
	store = model.NewStore()
	for k, w := range vit.Weights() {
		values := make([]float32, w.Size())
		for i := range values {
			values[i] = 0.1 * float32(math.Sin(12.9898*float64(i)+78.233*float64(k)))
		}
		if _, err := store.CreateVariable("/"+w.Path, tensors.FromFlatDataAndDimensions(values, w.Shape...)); err != nil {
			panic(err)
		}
	}
	file = filepath.Join(folder, "tiny.safetensors")
	if err := weights.Export(file, weights.Timm, store, "/", vit, nil, nil); err != nil {
		panic(err)
	}
	return file, vit, store
}

// drawn is an image of 80×60 pixels with some structure.
func drawn() image.Image {
	img := image.NewRGBA(image.Rect(0, 0, 80, 60))
	for y := range 60 {
		for x := range 80 {
			img.Set(x, y, color.RGBA{uint8(3 * x), uint8(4 * y), uint8(x * y), 255})
		}
	}
	return img
}

func Example() {
	folder, err := os.MkdirTemp("", "semcon")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	file, _, _ := tiny(folder) // Yours is dino_deitsmall16_pretrain.pth, say.
	img := drawn()             // And yours is from image.Decode.

	vit, err := Open(file)
	if err != nil {
		panic(err)
	}
	features, err := vit.Features(img)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(features.Class), features.Rows, features.Columns, len(features.Patch(27, 27)))
	// Output: 64 28 28 64
}

func TestFeaturesAreThoseOfTheExtractor(t *testing.T) {
	file, arch, store := tiny(t.TempDir())
	vit, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer vit.Close()
	if vit.Size != 224 || vit.Preprocessing != datasets.DefaultPreprocessing() || vit.Architecture().Name != "vit-tiny" {
		t.Errorf("size %d, %+v, %s", vit.Size, vit.Preprocessing, vit.Architecture().Name)
	}
	vit.Size = 32
	got, err := vit.Features(drawn())
	if err != nil {
		t.Fatal(err)
	}
	b, err := engine()
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := evaluation.NewFeatureExtractor(b, arch, store, "/", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	pixels, size, err := datasets.DefaultPreprocessing().Apply(drawn(), 32, 8)
	if err != nil {
		t.Fatal(err)
	}
	images := func(yield func(evaluation.Image, error) bool) {
		yield(evaluation.NewImage(pixels, size, datasets.DefaultPreprocessing()), nil)
	}
	for all, err := range frozen.Extract(images, evaluation.Outputs{Patches: true}) {
		if err != nil {
			t.Fatal(err)
		}
		want := all[0]
		if !slices.Equal(got.Class, want.Class) || !slices.Equal(got.Patches, want.Patches) || got.Rows != 4 || got.Columns != 4 {
			t.Errorf("%d×%d features differ, %v", got.Rows, got.Columns, err)
		}
	}
	if patch := got.Patch(2, 1); !slices.Equal(patch, got.Patches[9*64:10*64]) {
		t.Error("Patch is another patch")
	}
	vit.Preprocessing.CropMode = datasets.WholeImage
	whole, err := vit.Features(drawn())
	if err != nil || whole.Rows != 4 || whole.Columns != 6 {
		t.Errorf("the whole image has %d×%d patches, %v", whole.Rows, whole.Columns, err)
	}
	vit.Preprocessing.CropMode, vit.Size = datasets.CentreCrop, 30
	if _, err := vit.Features(drawn()); err == nil || !strings.Contains(err.Error(), "30×30 pixels") {
		t.Errorf("half a patch: %v", err)
	}
}

func TestOpenTakesWhatTheMakersSay(t *testing.T) {
	folder := t.TempDir()
	file, _, _ := tiny(folder)
	config := `{"pretrained_cfg": {"input_size": [3, 48, 48], "interpolation": "bilinear", "crop_pct": 1.0, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}`
	if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	vit, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer vit.Close()
	if got, want := vit.Preprocessing.Describe(vit.Size), "shorter side resized to 48 px (bilinear), centre crop of 48 px, mean 0.5 0.5 0.5, deviation 0.5 0.5 0.5"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestOpenRefuses(t *testing.T) {
	folder := t.TempDir()
	page := filepath.Join(folder, "page.pth")
	if err := os.WriteFile(page, bytes.Repeat([]byte("<html>"), 9), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{page, filepath.Join(folder, "none.safetensors")} {
		if _, err := Open(file); err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
