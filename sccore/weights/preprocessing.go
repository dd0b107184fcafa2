package weights

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
)

// maxConfig bounds the size of a file of settings beside weights.
const maxConfig = 1 << 20

// ReadPreprocessing reads how the makers of weights preprocess images, from timm's config.json or transformers' preprocessor_config.json beside the file of
// weights. What such a file leaves out is the default of timm, or of the class of transformers' image processors. size is the side of a crop in pixels.
// Without such a file it returns the default for crops of 224 pixels, and source is empty; else source is the file. The name of Meta's own files of DINOv3 tells
// which were trained on satellite images, whose mean and deviation differ. The error names the file and what cannot be done as it says.
func ReadPreprocessing(weightsFile string) (p datasets.Preprocessing, size int, source string, err error) {
	defer try.Handle(&err)
	folder := filepath.Dir(weightsFile)
	facts := try.E1(readFacts(weightsFile))
	for _, maker := range []struct {
		name string
		read func([]byte) (datasets.Preprocessing, int, error)
	}{{"config.json", fromTimm}, {"preprocessor_config.json", func(content []byte) (datasets.Preprocessing, int, error) {
		return fromTransformers(content, facts.ModelType)
	}}} {
		path := filepath.Join(folder, maker.name)
		content, err := readSmall(path, maxConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			p, size, err = maker.read(content)
		}
		if err == nil && size > 0 {
			if err = settings.Check(p); size > 1<<13 {
				err = fmt.Errorf("crops of %d pixels", size)
			}
		}
		if err != nil {
			return p, 0, "", fmt.Errorf("%s: %w", path, brief(err))
		}
		if size > 0 {
			return p, size, path, nil
		}
	}
	p = datasets.DefaultPreprocessing()
	if strings.Contains(filepath.Base(weightsFile), "pretrain_sat493m") {
		p.Mean, p.Std = [3]float64{0.430, 0.411, 0.296}, [3]float64{0.213, 0.156, 0.143} // As DINOv3's README says.
	}
	return p, 224, "", nil
}

// CheckColours returns an error if the makers of weights standardise images otherwise than ours.
func CheckColours(weightsFile string, ours datasets.Preprocessing) (err error) {
	defer try.Handle(&err)
	p, _, source := try.E3(ReadPreprocessing(weightsFile))
	if p.Mean != ours.Mean || p.Std != ours.Std {
		return fmt.Errorf("%s: images have mean %v and std %v, here they have %v and %v", cmp.Or(source, weightsFile), p.Mean, p.Std, ours.Mean, ours.Std)
	}
	return nil
}

// readSmall reads a regular file of at most so many bytes.
func readSmall(path string, most int64) (_ []byte, err error) {
	defer try.Handle(&err)
	file, size := try.E2(safetensors.OpenFile(path))
	defer file.Close()
	if size > most {
		return nil, fmt.Errorf("is larger than %d MiB", most>>20)
	}
	return io.ReadAll(io.LimitReader(file, most))
}

// pretrained is timm's pretrained_cfg. Its other fields are about the head and where the weights come from, or are only for larger images in tests.
type pretrained struct {
	InputSize     []int                  `json:"input_size"`
	CropPct       float64                `json:"crop_pct"`
	CropMode      datasets.CropMode      `json:"crop_mode"`
	Interpolation datasets.Interpolation `json:"interpolation"`
	Mean          colours                `json:"mean"`
	Std           colours                `json:"std"`
}

// fromTimm reads the data configuration of a timm model, under pretrained_cfg or, of old, beside the architecture. The size is 0 if the file is not timm's.
func fromTimm(content []byte) (p datasets.Preprocessing, size int, err error) {
	defer try.Handle(&err)
	p = datasets.DefaultPreprocessing() // Which is timm's.
	c := pretrained{Mean: p.Mean, Std: p.Std}
	var config struct {
		Architecture string          `json:"architecture"`
		Pretrained   json.RawMessage `json:"pretrained_cfg"`
		CropFloor    bool            `json:"crop_floor"` // Ours. It is not in pretrained_cfg, where timm refuses what it does not know.
	}
	try.E(json.Unmarshal(content, &config))
	switch {
	case len(config.Pretrained) > 0 && config.Pretrained[0] == '{':
		try.E(json.Unmarshal(config.Pretrained, &c))
	case config.Architecture != "":
		try.E(json.Unmarshal(content, &c))
	default:
		return p, 0, nil
	}
	if c.InputSize == nil {
		c.InputSize = []int{3, 224, 224}
	}
	if len(c.InputSize) != 3 || c.InputSize[1] != c.InputSize[2] || c.InputSize[0] != 3 || c.InputSize[1] < 1 {
		return p, 0, fmt.Errorf("input_size %.60s: want 3 channels and a square", fmt.Sprint(c.InputSize))
	}
	p.CropPct, p.CropMode, p.CropFloor = cmp.Or(c.CropPct, p.CropPct), cmp.Or(c.CropMode, p.CropMode), config.CropFloor
	p.Interpolation, p.Mean, p.Std = cmp.Or(c.Interpolation, p.Interpolation), c.Mean, c.Std
	return p, c.InputSize[1], nil
}

// processor is an image processor of transformers. The fields that it does not have, such as data_format, are not about the pixels of RGB images.
type processor struct {
	Resize    toggle  `json:"do_resize"`
	Size      sides   `json:"size"`
	Resample  int     `json:"resample"`
	Crop      toggle  `json:"do_center_crop"`
	CropSize  sides   `json:"crop_size"`
	Rescale   toggle  `json:"do_rescale"`
	Factor    float64 `json:"rescale_factor"`
	Normalize toggle  `json:"do_normalize"`
	Mean      colours `json:"image_mean"`
	Std       colours `json:"image_std"`
	Pad       toggle  `json:"do_pad"`
	Square    toggle  `json:"use_square_size"` // Of CLIP's.
	CropFloor bool    `json:"crop_floor"`      // Ours, see [datasets.Preprocessing].
}

// toggle is what a null turns off.
type toggle bool

// UnmarshalJSON reads true, false or null.
func (t *toggle) UnmarshalJSON(text []byte) error {
	*t = false
	return json.Unmarshal(text, (*bool)(t))
}

// What resample means.
const bilinear, bicubic = 2, 3

// className is the name of a processor, and the class is a part of it. Old processors are called feature extractors, and some have two programs.
var className = regexp.MustCompile(`^(\w+?)(?:ImageProcessor|FeatureExtractor)(?:Fast|Pil)?$`)

// fromTransformers reads the settings of an image processor of transformers, for a model of a type. The size is 0 if the file has none.
func fromTransformers(content []byte, modelType string) (p datasets.Preprocessing, size int, err error) {
	defer try.Handle(&err)
	var kind struct {
		Type string `json:"image_processor_type"`
		Old  string `json:"feature_extractor_type"`
	}
	try.E(json.Unmarshal(content, &kind))
	name := cmp.Or(kind.Type, kind.Old)
	class := lo.Ternary(name != "", lo.NthOrEmpty(className.FindStringSubmatch(name), 1), libraries().Models[modelType].Processor)
	c, known := libraries().Processors[class]
	if !known && name != "" {
		return p, 0, fmt.Errorf("image_processor_type %.60q is not known", name)
	} else if !known {
		c = processor{Resize: true, Rescale: true, Factor: 1. / 255, Normalize: true, Mean: colours{math.NaN()}, Std: colours{math.NaN()}, CropFloor: true}
	}
	try.E(json.Unmarshal(content, &c))
	if !known && c.Size == (sides{}) {
		return p, 0, nil // It does not speak of images.
	}
	p, size, err = preprocessingOf(c, class == "Bit" || class == "CLIP")
	if err != nil && !known {
		err = fmt.Errorf("%w; there is no image_processor_type, which would say what is left out", err)
	}
	return p, size, err
}

// preprocessingOf is what a processor does. shorter says that a size of one number is the length of the shorter side.
func preprocessingOf(c processor, shorter bool) (p datasets.Preprocessing, size int, err error) {
	p = datasets.Preprocessing{CropPct: 1, CropMode: datasets.CentreCrop, CropFloor: c.CropFloor}
	p.Interpolation = lo.Ternary(c.Resample == bilinear, datasets.Bilinear, datasets.Bicubic)
	if c.Size.number > 0 && shorter {
		c.Size = sides{shortest: c.Size.number}
	} else if c.Size.number > 0 {
		c.Size = square(c.Size.number)
	}
	if c.CropSize.number > 0 {
		c.CropSize = square(c.CropSize.number)
	}
	switch size = c.Size.shortest; {
	case c.Size == (sides{}):
		return p, 0, errors.New("size is left out")
	case bool(!c.Resize):
		return p, 0, errors.New("do_resize false: want images of one size")
	case bool(c.Pad):
		return p, 0, errors.New("do_pad true: not known")
	case bool(c.Square):
		return p, 0, errors.New("use_square_size true: not known")
	case c.Resample != bilinear && c.Resample != bicubic:
		return p, 0, fmt.Errorf("resample %d: want %d, bilinear, or %d, bicubic", c.Resample, bilinear, bicubic)
	case bool(c.Normalize) && (c.Mean[0] != c.Mean[0] || c.Std[0] != c.Std[0]):
		return p, 0, errors.New("image_mean or image_std is left out")
	case size == 0 && c.Size.height != c.Size.width:
		return p, 0, fmt.Errorf("size %d×%d is not a square", c.Size.width, c.Size.height)
	case size == 0:
		size, p.CropMode = c.Size.height, datasets.Squash
	case bool(!c.Crop):
		return p, 0, errors.New("do_center_crop false of images whose shorter side is resized: want squares")
	}
	p.Resize = size
	if c.Crop {
		if c.CropSize.height != c.CropSize.width || c.CropSize.height > size || c.CropSize.height < 1 {
			return p, 0, fmt.Errorf("crop_size %d×%d of images of %d: want a square within", c.CropSize.width, c.CropSize.height, size)
		}
		size = c.CropSize.height
	}
	scale := lo.Ternary(bool(c.Rescale), 255*c.Factor, 255) // The mean and the deviation here are of values in [0, 1].
	if !(scale > 0 && scale <= 255) {
		return p, 0, fmt.Errorf("rescale_factor %g is out of range", c.Factor)
	}
	if !c.Normalize {
		c.Mean, c.Std = colours{}, colours{1, 1, 1}
	}
	if math.Abs(scale-1) < 1e-12 {
		scale = 1
	}
	for i := range 3 {
		p.Mean[i], p.Std[i] = c.Mean[i]/scale, c.Std[i]/scale
	}
	return p, size, nil
}

// sides is a size as image processors write it: one number, height and width, or the length of the shorter side.
type sides struct{ number, height, width, shortest int }

func square(side int) sides { return sides{height: side, width: side} }

// UnmarshalJSON reads any of the forms. A null is no size.
func (s *sides) UnmarshalJSON(text []byte) error {
	var number *int
	var pair []int
	var named map[string]*int
	switch {
	case json.Unmarshal(text, &number) == nil:
		*s = sides{}
		if number == nil {
			return nil
		}
		s.number = *number
	case json.Unmarshal(text, &pair) == nil && len(pair) == 2:
		*s = sides{height: pair[0], width: pair[1]}
	case json.Unmarshal(text, &named) == nil:
		*s = sides{}
		for name, value := range named {
			into := map[string]*int{"height": &s.height, "width": &s.width, "shortest_edge": &s.shortest}[name]
			switch {
			case value == nil:
			case into == nil:
				return fmt.Errorf("size with %.40q: want height and width, or shortest_edge", name)
			default:
				*into = *value
			}
		}
	default:
		return fmt.Errorf("size %.60s cannot be read", text)
	}
	if most := max(s.number, s.height, s.width, s.shortest); min(s.number, s.height, s.width, s.shortest) < 0 || most == 0 || most > 1<<14 ||
		s.shortest > 0 && s.height+s.width > 0 {
		return fmt.Errorf("size %.60s: want height and width, or shortest_edge, of 1 to %d", text, 1<<14)
	}
	return nil
}

// colours are numbers of red, green and blue.
type colours [3]float64

// UnmarshalJSON reads three numbers, or one for all. A null leaves the colours as they are, and so does an empty list.
func (c *colours) UnmarshalJSON(text []byte) error {
	var one *float64
	var three []float64
	switch {
	case json.Unmarshal(text, &one) == nil:
		if one != nil {
			*c = colours{*one, *one, *one}
		}
	case json.Unmarshal(text, &three) == nil && len(three) == 3:
		*c = colours(three)
	case len(three) != 0 || json.Unmarshal(text, &three) != nil:
		return fmt.Errorf("%.60s: want a number for each of red, green and blue", text)
	}
	return nil
}
