package weights

import (
	"encoding/json"
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
)

// TestPreprocessingIsTheMakers compares pixels with what image processors of transformers and transforms of timm make of the files of
// testdata/preprocessing.py.
func TestPreprocessingIsTheMakers(t *testing.T) {
	var cases []struct {
		Name   string
		Files  map[string]json.RawMessage
		Values [][]float64
	}
	raw, err := os.ReadFile("testdata/preprocessing.json")
	if err == nil {
		err = json.Unmarshal(raw, &cases)
	}
	if err != nil || len(cases) < 20 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		dir := t.TempDir()
		for file, text := range c.Files {
			if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p, size, _, err := ReadPreprocessing(filepath.Join(dir, "model.safetensors"))
		if err != nil || size != 4 {
			t.Errorf("%s: crops of %d, %v", c.Name, size, err)
			continue
		}
		tolerance := 1e-4
		if p.CropMode == datasets.Squash { // One of 255 levels, by the order of rounding.
			tolerance = 1.01 / 255 / slices.Min(p.Std[:])
		}
		for i, dims := range [][2]int{{20, 30}, {33, 19}} {
			drawn := image.NewRGBA(image.Rect(0, 0, dims[1], dims[0]))
			for at := range dims[0] * dims[1] {
				x, y := at%dims[1], at/dims[1]
				for c := range 3 {
					drawn.Pix[4*at+c] = uint8(37*x + 11*y*y + 5*x*y*(c+1) + 80*c)
				}
				drawn.Pix[4*at+3] = 255
			}
			pixels, _, err := p.Apply(drawn, size, 1)
			if err != nil {
				t.Fatal(err)
			}
			if far := farthest(p.Normalize(pixels), c.Values[i]); !(far <= tolerance) {
				t.Errorf("%s: image %d is off by %.3g: %+v", c.Name, i, far, p)
			}
		}
	}
}

// The files are cut down from those that timm and transformers publish beside weights.
func TestReadPreprocessing(t *testing.T) {
	augreg := `{"architecture": "vit_small_patch16_224", "num_features": 384, "pretrained_cfg": {"tag": "augreg_in21k", "input_size": [3, 384, 384],
		"pool_size": null, "interpolation": "bicubic", "crop_pct": 0.9, "crop_mode": "center", "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}`
	for name, c := range map[string]struct {
		files map[string]string
		want  string // Of [datasets.Preprocessing.Describe].
		from  string
	}{
		"no file": {nil, "shorter side resized to 256 px (bicubic), centre crop of 224 px, ImageNet's mean and deviation", ""},
		"timm's": {map[string]string{"config.json": augreg},
			"shorter side resized to 426 px (bicubic), centre crop of 384 px, mean 0.5 0.5 0.5, deviation 0.5 0.5 0.5", "config.json"},
		"a model's of transformers": {map[string]string{"config.json": `{"model_type": "dinov2", "image_size": 518}`},
			"shorter side resized to 256 px (bicubic), centre crop of 224 px, ImageNet's mean and deviation", ""},
		"DINOv2's": {map[string]string{"preprocessor_config.json": `{"crop_size": {"height": 224, "width": 224}, "do_center_crop": true, "image_mean": [0.485, 0.456, 0.406],
			"image_std": [0.229, 0.224, 0.225], "resample": 3, "size": {"shortest_edge": 256}}`},
			"shorter side resized to 256 px (bicubic), centre crop of 224 px at half the margin rounded down, ImageNet's mean and deviation", "preprocessor_config.json"},
		"DINOv3's": {map[string]string{"config.json": `{"model_type": "dinov3_vit"}`, "preprocessor_config.json": `{"crop_size": null, "do_center_crop": null,
			"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 2, "size": {"height": 224, "width": 224}}`},
			"resized to 224×224 px (bilinear), centre crop of 224 px, ImageNet's mean and deviation", "preprocessor_config.json"},
		"timm's without a size": {map[string]string{"config.json": `{"architecture": "x", "pretrained_cfg": {"input_size": null, "interpolation": "bilinear", "crop_pct": 1, "mean": [0.5, 0.5, 0.5]}}`},
			"shorter side resized to 224 px (bilinear), centre crop of 224 px, mean 0.5 0.5 0.5, deviation 0.229 0.224 0.225", "config.json"},
		"timm's of old without a size": {map[string]string{"config.json": `{"architecture": "x", "interpolation": "bilinear", "crop_pct": 1, "std": [0.5, 0.5, 0.5]}`},
			"shorter side resized to 224 px (bilinear), centre crop of 224 px, mean 0.485 0.456 0.406, deviation 0.5 0.5 0.5", "config.json"},
		"both": {map[string]string{"config.json": augreg, "preprocessor_config.json": `{"size": 100}`},
			"shorter side resized to 426 px (bicubic), centre crop of 384 px, mean 0.5 0.5 0.5, deviation 0.5 0.5 0.5", "config.json"},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p, size, source, err := ReadPreprocessing(filepath.Join(dir, "model.safetensors"))
		if err != nil || p.Describe(size) != c.want || c.from == "" && source != "" || c.from != "" && source != filepath.Join(dir, c.from) {
			t.Errorf("%s: %q from %q, %v; want %q from %q", name, p.Describe(size), source, err, c.want, c.from)
		}
		if err := CheckColours(filepath.Join(dir, "model.safetensors"), datasets.DefaultPreprocessing()); (err == nil) != strings.Contains(c.want, "ImageNet's") {
			t.Errorf("%s: the colours of %q: %v", name, c.want, err)
		}
	}
	for file, mean := range map[string]float64{"dinov3_vitl16_pretrain_sat493m-eadcf0ff.pth": 0.430, "dinov3_vitl16_pretrain_lvd1689m-8aa4cbdd.pth": 0.485} { // Meta's own.
		if p, _, _, err := ReadPreprocessing(filepath.Join(t.TempDir(), file)); err != nil || p.Mean[0] != mean {
			t.Errorf("%s: mean %v, %v; want %v of red", file, p.Mean, err, mean)
		}
	}
}

// TestConfigsKeepWhereCropsAre writes each rounding of the margin for each library, and reads it back. timm refuses what it does not know in pretrained_cfg.
func TestConfigsKeepWhereCropsAre(t *testing.T) {
	v, err := encoder.ViTByName("vit-s16")
	if err != nil {
		t.Fatal(err)
	}
	for _, naming := range []Naming{Timm, Transformers} {
		for _, floor := range []bool{true, false} {
			path, want := filepath.Join(t.TempDir(), ModelFile), datasets.DefaultPreprocessing()
			want.CropFloor = floor
			if err := WriteConfig(path, naming, v, want, 224); err != nil {
				t.Fatal(err)
			}
			p, size, source, err := ReadPreprocessing(path)
			if err != nil || source == "" || p.CropFloor != floor || p.Describe(size) != want.Describe(224) {
				t.Errorf("%s: read %q of %d from %q, %v; want %q", naming, p.Describe(size), size, source, err, want.Describe(224))
			}
		}
	}
	text := libraryOf(Card{ViT: v, Preprocessing: datasets.Preprocessing{CropPct: 1, CropFloor: true}, Size: 224}, "").text("timm")
	if before, inside, _ := strings.Cut(text, "pretrained_cfg"); !strings.Contains(before, "crop_floor") || strings.Contains(inside, "crop_floor") {
		t.Errorf("crop_floor is in pretrained_cfg: %s", text)
	}
}

func TestReadPreprocessingRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"no JSON":                    {"config.json", "{", "unexpected end"},
		"another shape":              {"config.json", `{"pretrained_cfg": {"input_size": [3, 224, 196]}}`, "want 3 channels and a square"},
		"border":                     {"config.json", `{"pretrained_cfg": {"input_size": [3, 224, 224], "crop_mode": "border"}}`, `crop_mode "border"`},
		"huge":                       {"config.json", `{"pretrained_cfg": {"input_size": [3, 99999, 99999]}}`, "crops of 99999 pixels"},
		"two colours":                {"config.json", `{"pretrained_cfg": {"input_size": [3, 224, 224], "mean": [1, 1]}}`, "red, green and blue"},
		"no deviation":               {"config.json", `{"pretrained_cfg": {"input_size": [3, 224, 224], "std": [0, 1, 1]}}`, "std 0 is not above 0"},
		"another kernel":             {"preprocessor_config.json", `{"size": 224, "resample": 1}`, "resample 1"},
		"a large crop":               {"preprocessor_config.json", `{"image_processor_type": "ViTImageProcessor", "size": 224, "do_center_crop": true, "crop_size": 256}`, "crop_size 256×256"},
		"a size of text":             {"preprocessor_config.json", `{"size": "large"}`, "cannot be read"},
		"an empty size":              {"preprocessor_config.json", `{"size": {}}`, "want height and width, or shortest_edge"},
		"the longer side":            {"preprocessor_config.json", `{"image_processor_type": "ViTImageProcessor", "size": {"longest_edge": 224}}`, `size with "longest_edge"`},
		"both sides":                 {"preprocessor_config.json", `{"image_processor_type": "ViTImageProcessor", "size": {"shortest_edge": 224, "longest_edge": 300}}`, `"longest_edge"`},
		"an oblong":                  {"preprocessor_config.json", `{"image_processor_type": "ViTImageProcessor", "size": [224, 196]}`, "size 196×224 is not a square"},
		"no resizing":                {"preprocessor_config.json", `{"image_processor_type": "ViTImageProcessor", "do_resize": false}`, "do_resize false"},
		"padding":                    {"preprocessor_config.json", `{"image_processor_type": "ViTImageProcessor", "do_pad": true}`, "do_pad true"},
		"no crop":                    {"preprocessor_config.json", `{"image_processor_type": "BitImageProcessor", "do_center_crop": false}`, "do_center_crop false"},
		"no scale":                   {"preprocessor_config.json", `{"image_processor_type": "ViTImageProcessor", "rescale_factor": 0}`, "rescale_factor 0 is out of range"},
		"a tiny scale":               {"preprocessor_config.json", `{"image_processor_type": "ViTImageProcessor", "rescale_factor": 0.0001}`, "mean"},
		"another processor":          {"preprocessor_config.json", `{"image_processor_type": "ConvNextImageProcessor", "size": 224}`, `image_processor_type "ConvNextImageProcessor" is not known`},
		"no processor":               {"preprocessor_config.json", `{"size": 224, "resample": 2}`, "image_mean or image_std is left out; there is no image_processor_type"},
		"a null size":                {"preprocessor_config.json", `{"image_processor_type": "ViTImageProcessor", "size": null}`, "size is left out"},
		"a side of a million digits": {"preprocessor_config.json", `{"size": ` + strings.Repeat("9", 1<<19) + `}`, "cannot be read"},
		"another kernel of timm":     {"config.json", `{"pretrained_cfg": {"interpolation": "random"}}`, `interpolation "random"`},
		"a list":                     {"preprocessor_config.json", `[1]`, "cannot unmarshal"},
		"more than a MiB":            {"config.json", strings.Repeat(" ", 1<<20+1), "larger than 1 MiB"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, _, _, err := ReadPreprocessing(filepath.Join(dir, "w.pth"))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), filepath.Join(dir, c.file)) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 320+len(dir) {
			t.Errorf("%s: %.500v, want %q", name, err, c.want)
		}
	}
}
