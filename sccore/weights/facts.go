package weights

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
)

// modelFacts is what a config.json of timm or transformers says about the architecture of the weights beside it. A field that it does not have is 0.
type modelFacts struct {
	file string // Empty without a file.

	Architecture string `json:"architecture"` // timm's name.
	ModelArgs    struct {
		EmbedDim int `json:"embed_dim"`
		Depth    int `json:"depth"`
		NumHeads int `json:"num_heads"`
	} `json:"model_args"`

	ModelType   string   `json:"model_type"` // That of transformers.
	HiddenSize  int      `json:"hidden_size"`
	NumLayers   int      `json:"num_hidden_layers"`
	NumHeads    int      `json:"num_attention_heads"`
	HiddenAct   string   `json:"hidden_act"`
	Epsilon     *float64 `json:"layer_norm_eps"`
	RoPETheta   float64  `json:"rope_theta"`
	UseGatedMLP bool     `json:"use_gated_mlp"`
}

// readFacts reads the config.json beside a file of weights. Without one, or if it is of something else, it returns no facts.
func readFacts(weightsFile string) (modelFacts, error) {
	path := filepath.Join(filepath.Dir(weightsFile), "config.json")
	content, err := readSmall(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return modelFacts{}, nil
	}
	facts := modelFacts{}
	if err == nil {
		facts, err = parseFacts(content)
	}
	if err != nil {
		return modelFacts{}, fmt.Errorf("%s: %w", path, err)
	}
	if facts.Architecture != "" || facts.ModelType != "" {
		facts.file = path
	}
	return facts, nil
}

func parseFacts(content []byte) (facts modelFacts, err error) {
	if err := json.Unmarshal(content, &facts); err != nil {
		return modelFacts{}, fmt.Errorf("cannot be read: %.200w", err)
	}
	if facts.Architecture == "" && facts.ModelType == "" {
		return modelFacts{}, nil
	}
	if facts.ModelType != "" {
		if known := []string{"vit", "vit_mae", "vit_msn", "deit", "dinov2", "dinov2_with_registers", "dinov3_vit"}; !slices.Contains(known, facts.ModelType) {
			return modelFacts{}, fmt.Errorf("model_type %.40q is no vision transformer that is known, only %s", facts.ModelType, strings.Join(known, ", "))
		}
		facts.fillIn()
		want := "gelu"
		if facts.UseGatedMLP {
			want = "silu"
		}
		if facts.HiddenAct != want {
			return modelFacts{}, fmt.Errorf("hidden_act %.40q: want %s", facts.HiddenAct, want)
		}
	}
	for _, field := range []struct {
		name  string
		value int
	}{{"num_heads", facts.ModelArgs.NumHeads}, {"num_attention_heads", facts.NumHeads}} {
		if field.value < 0 || field.value > 1<<12 {
			return modelFacts{}, fmt.Errorf("%s %d is out of range", field.name, field.value)
		}
	}
	if e := facts.Epsilon; e != nil && !(*e > 0 && *e < 1) || !(facts.RoPETheta >= 0 && facts.RoPETheta < 1e9) {
		return modelFacts{}, errors.New("layer_norm_eps or rope_theta is out of range")
	}
	return facts, nil
}

// fillIn adds the values that transformers leaves out because they are its defaults.
func (f *modelFacts) fillIn() {
	heads, epsilon := 12, 1e-12
	switch f.ModelType {
	case "dinov3_vit":
		heads, epsilon = 6, 1e-5
	case "dinov2", "dinov2_with_registers", "vit_msn":
		epsilon = 1e-6
	}
	if f.NumHeads == 0 {
		f.NumHeads = heads
	}
	if f.Epsilon == nil {
		f.Epsilon = &epsilon
	}
	if f.HiddenAct == "" {
		f.HiddenAct = "gelu"
	}
}

// heads is the number of attention heads, 0 if it is not there.
func (f modelFacts) heads() int { return max(f.NumHeads, f.ModelArgs.NumHeads) }

// check returns an error if the file is about another transformer.
func (f modelFacts) check(dim, depth int) error {
	for _, field := range []struct {
		name        string
		says, wants int
	}{
		{"hidden_size", f.HiddenSize, dim}, {"num_hidden_layers", f.NumLayers, depth},
		{"embed_dim", f.ModelArgs.EmbedDim, dim}, {"depth", f.ModelArgs.Depth, depth},
	} {
		if field.says != 0 && field.says != field.wants {
			return fmt.Errorf("%s: %s is %d, but that of the weights beside it is %d", f.file, field.name, field.says, field.wants)
		}
	}
	return nil
}

// maxConfig bounds the size of a file of settings beside weights.
const maxConfig = 1 << 20

// ReadPreprocessing reads how the makers of weights preprocess images, from timm's config.json or transformers' preprocessor_config.json beside the file of
// weights. size is the side of a crop in pixels. Without such a file, or if it does not speak of images, it returns the default for crops of 224 pixels, and
// source is empty; else source is the file. The error names the file and what cannot be done as it says.
func ReadPreprocessing(weightsFile string) (p datasets.Preprocessing, size int, source string, err error) {
	for _, maker := range []struct {
		name string
		read func([]byte) (datasets.Preprocessing, int, error)
	}{{"preprocessor_config.json", fromTransformers}, {"config.json", fromTimm}} { // The last one counts.
		path := filepath.Join(filepath.Dir(weightsFile), maker.name)
		content, err := readSmall(path, maxConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var found datasets.Preprocessing
		var side int
		if err == nil {
			if found, side, err = maker.read(content); err == nil && side > 0 {
				if err = settings.Check(found); side > 1<<13 {
					err = fmt.Errorf("crops of %d pixels", side)
				}
			}
		}
		if err != nil {
			return p, 0, "", fmt.Errorf("%s: %w", path, err)
		}
		if side > 0 {
			p, size, source = found, side, path
		}
	}
	if source == "" {
		return datasets.DefaultPreprocessing(), 224, "", nil
	}
	return p, size, source, nil
}

// readSmall reads a regular file of at most so many bytes.
func readSmall(path string, most int64) ([]byte, error) {
	file, size, err := safetensors.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if size > most {
		return nil, fmt.Errorf("is larger than %d MiB", most>>20)
	}
	return io.ReadAll(io.LimitReader(file, most))
}

// fromTimm reads the data configuration of a timm model. The size is 0 if there is none.
func fromTimm(content []byte) (p datasets.Preprocessing, size int, err error) {
	var config struct {
		Pretrained struct {
			InputSize              []int           `json:"input_size"`
			datasets.Preprocessing                 // In the same words.
			Mean                   json.RawMessage `json:"mean"`
			Std                    json.RawMessage `json:"std"`
		} `json:"pretrained_cfg"`
	}
	c := &config.Pretrained
	c.Preprocessing = datasets.DefaultPreprocessing()
	c.Interpolation = datasets.Bilinear // timm's default.
	if err := json.Unmarshal(content, &config); err != nil || len(c.InputSize) != 3 {
		return p, 0, err
	}
	if c.InputSize[1] != c.InputSize[2] || c.InputSize[0] != 3 {
		return p, 0, fmt.Errorf("input_size %v: want 3 channels and a square", c.InputSize)
	}
	p = c.Preprocessing
	p.CropPct = cmp.Or(p.CropPct, datasets.DefaultPreprocessing().CropPct)
	return p, c.InputSize[1], cmp.Or(colours(c.Mean, &p.Mean), colours(c.Std, &p.Std))
}

// fromTransformers reads the settings of an image processor of transformers. The size is 0 if it has none.
func fromTransformers(content []byte) (p datasets.Preprocessing, size int, err error) {
	var config struct {
		Size      json.RawMessage `json:"size"`
		CropSize  json.RawMessage `json:"crop_size"`
		Crop      *bool           `json:"do_center_crop"`
		Resample  *int            `json:"resample"`
		ImageMean json.RawMessage `json:"image_mean"`
		ImageStd  json.RawMessage `json:"image_std"`
	}
	if err := json.Unmarshal(content, &config); err != nil || config.Size == nil {
		return p, 0, err
	}
	sides, err := sidesOf(config.Size)
	if err != nil {
		return p, 0, err
	}
	p = datasets.DefaultPreprocessing()
	p.CropPct = 1
	switch {
	case config.Resample == nil || *config.Resample == 2:
		p.Interpolation = datasets.Bilinear
	case *config.Resample == 3:
	default:
		return p, 0, fmt.Errorf("resample %d: want 2, bilinear, or 3, bicubic", *config.Resample)
	}
	size = sides.Height
	if sides.ShortestEdge > 0 {
		p.Resize, size = sides.ShortestEdge, sides.ShortestEdge
	} else if p.CropMode = datasets.Squash; sides.Height != sides.Width {
		return p, 0, fmt.Errorf("size %d×%d is not a square", sides.Width, sides.Height)
	}
	if config.Crop != nil && *config.Crop && config.CropSize != nil {
		crop, err := sidesOf(config.CropSize)
		if err != nil {
			return p, 0, err
		}
		if crop.Height != crop.Width || crop.Height > size || crop.Height < 1 {
			return p, 0, fmt.Errorf("crop_size %d×%d of images of %d: want a square within", crop.Width, crop.Height, size)
		}
		p.Resize, size = size, crop.Height
	}
	return p, size, cmp.Or(colours(config.ImageMean, &p.Mean), colours(config.ImageStd, &p.Std))
}

// sides is a size as image processors write it: one number, height and width, or the length of the shorter side.
type sides struct {
	Height       int `json:"height"`
	Width        int `json:"width"`
	ShortestEdge int `json:"shortest_edge"`
}

func sidesOf(raw json.RawMessage) (s sides, err error) {
	if json.Unmarshal(raw, &s.Height) == nil {
		s.Width = s.Height
		return s, nil
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("size %.60s cannot be read", raw)
	}
	if s.ShortestEdge < 1 && s.Height < 1 {
		return s, fmt.Errorf("size %.60s has neither a height nor a shortest_edge", raw)
	}
	return s, nil
}

// colours reads a number of each colour, if it is there.
func colours(raw json.RawMessage, into *[3]float64) error {
	if raw == nil || string(raw) == "null" {
		return nil
	}
	var values []float64
	if err := json.Unmarshal(raw, &values); err != nil || len(values) != 3 {
		return fmt.Errorf("%.60s: want a number for each of red, green and blue", raw)
	}
	copy(into[:], values)
	return nil
}
