package datasets

import (
	"bytes"
	"encoding/json"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// preprocessingCase is what timm and torchvision make of an image, written by testdata/preprocessing/preprocessing.py.
type preprocessingCase struct {
	Image         string
	Height, Width int
	Size, Patch   int
	CropPct       float64       `json:"crop_pct"`
	CropMode      CropMode      `json:"crop_mode"`
	Interpolation Interpolation `json:"interpolation"`
	PNG           []byte
}

type preprocessingGolden struct {
	Cases      []preprocessingCase
	Normalized struct {
		Mean, Std [3]float64
		Values    []float32
	}
}

func readPreprocessing(t *testing.T) (golden preprocessingGolden) {
	t.Helper()
	text, err := os.ReadFile("testdata/preprocessing/preprocessing.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Cases) != 27 {
		t.Fatalf("%d cases, want 27", len(golden.Cases))
	}
	return golden
}

// Every byte is Pillow's.
func TestPreprocessingIsTimms(t *testing.T) {
	golden := readPreprocessing(t)
	images, err := OpenImageFolder("testdata/preprocessing")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range golden.Cases {
		p := DefaultPreprocessing()
		p.CropPct, p.CropMode, p.Interpolation = want.CropPct, want.CropMode, want.Interpolation
		at := -1
		for i := range images.Len() {
			if images.File(i) == want.Image {
				at = i
			}
		}
		pixels, size, err := images.Preprocess(at, p, want.Size, max(want.Patch, 1))
		if err != nil || size != (Size{want.Height, want.Width}) || len(pixels) != 3*want.Height*want.Width {
			t.Fatalf("%s, %s: %v, %v, want %d×%d", want.Image, p.Describe(want.Size), size, err, want.Width, want.Height)
		}
		decoded, err := png.Decode(bytes.NewReader(want.PNG))
		if err != nil {
			t.Fatal(err)
		}
		rgba := opaque(decoded, decoded.Bounds())
		worst, differing := 0, 0
		for i := range pixels {
			got, want := int(pixels[i]), int(rgba.Pix[i/3*4+i%3])
			if got != want {
				worst, differing = max(worst, got-want, want-got), differing+1
			}
		}
		if worst > 0 {
			t.Errorf("%s, %s: %d of %d values are off, by up to %d", want.Image, p.Describe(want.Size), differing, len(pixels), worst)
		}
	}
}

func TestNormalizeIsTorchvisions(t *testing.T) {
	golden := readPreprocessing(t).Normalized
	file, err := os.Open("testdata/preprocessing/wide.png")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	picture, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	p := DefaultPreprocessing()
	p.CropPct, p.Mean, p.Std = 1, golden.Mean, golden.Std
	pixels, _, err := p.Apply(picture, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range p.Normalize(pixels) {
		if want := golden.Values[i]; !(math.Abs(float64(got-want)) <= 1e-6) {
			t.Fatalf("value %d is %g, torchvision's %g", i, got, want)
		}
	}
}

// A list of images may name anything.
func TestReadFileRefusesOddFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.png")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for path, want := range map[string]string{pipe: "is not a regular file", dir: "is not a regular file", filepath.Join(dir, "none.png"): "no such file"} {
		if _, _, err := DefaultPreprocessing().ReadFile(path, 8, 1); err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestPreprocessingIsNamed(t *testing.T) {
	p := DefaultPreprocessing()
	wide := p
	wide.CropPct, wide.CropMode, wide.Mean, wide.Std = 0.9, Squash, [3]float64{0.5, 0.5, 0.5}, [3]float64{0.5, 0.5, 0.5}
	whole := p
	whole.CropMode, whole.Resize, whole.Interpolation = WholeImage, 480, Bilinear
	for want, got := range map[string]string{
		"shorter side resized to 256 px (bicubic), centre crop of 224 px, ImageNet's mean and deviation":                p.Describe(224),
		"resized to 426×426 px (bicubic), centre crop of 384 px, mean 0.5 0.5 0.5, deviation 0.5 0.5 0.5":               wide.Describe(384),
		"shorter side resized to 480 px (bilinear), whole image padded to whole patches, ImageNet's mean and deviation": whole.Describe(224),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPreprocessingRefuses(t *testing.T) {
	images, err := OpenImageFolder("testdata/preprocessing")
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(p *Preprocessing){
		"crop_pct 0 ":             func(p *Preprocessing) { p.CropPct = 0 },
		"crop_pct NaN":            func(p *Preprocessing) { p.CropPct = math.NaN() },
		"resize -1":               func(p *Preprocessing) { p.Resize = -1 },
		"images resized to 20":    func(p *Preprocessing) { p.Resize = 20 },
		`crop_mode "border"`:      func(p *Preprocessing) { p.CropMode = "border" },
		`interpolation "lanczos"`: func(p *Preprocessing) { p.Interpolation = "lanczos" },
		"std 0 is not above 0":    func(p *Preprocessing) { p.Std = [3]float64{0, 1, 1} },
	} {
		p := DefaultPreprocessing()
		change(&p)
		if _, _, err := images.Preprocess(0, p, 24, 8); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Join("preprocessing", "small.png")) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
