package weights

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/semcon/semcon/sccore/encoder"
)

// modelFacts is what a config.json of timm or transformers says about the architecture of the weights beside it. A field that it does not have is 0.
type modelFacts struct {
	file string // Empty without a file.

	Architecture string         `json:"architecture"` // timm's name.
	ModelArgs    map[string]any `json:"model_args"`

	ModelType   string   `json:"model_type"` // As in transformers.
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
		usual, known := libraries().Models[facts.ModelType]
		if !known {
			known := strings.Join(slices.Sorted(maps.Keys(libraries().Models)), ", ")
			return modelFacts{}, fmt.Errorf("model_type %.40q is no vision transformer that is known, only %s", facts.ModelType, known)
		}
		facts.NumHeads, facts.Epsilon, facts.HiddenAct = cmp.Or(facts.NumHeads, usual.Heads), cmp.Or(facts.Epsilon, &usual.Epsilon), cmp.Or(facts.HiddenAct, "gelu")
		if want := map[bool]string{true: "silu", false: "gelu"}[facts.UseGatedMLP]; facts.HiddenAct != want {
			return modelFacts{}, fmt.Errorf("hidden_act %.40q: want %s", facts.HiddenAct, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(facts.ModelArgs)) {
		value := facts.ModelArgs[name]
		if accepted, known := libraries().Accepts[name]; !slices.Contains(libraries().Free, name) && (!known || !slices.Contains(accepted, value)) {
			return modelFacts{}, fmt.Errorf("model_args: %.40s %.60q is not known", name, fmt.Sprint(value))
		}
	}
	for name, value := range map[string]float64{
		"num_heads": facts.argument("num_heads"), "embed_dim": facts.argument("embed_dim"), "depth": facts.argument("depth"), "num_attention_heads": float64(facts.NumHeads),
	} {
		if !(value >= 0 && value <= 1<<16) || value != math.Trunc(value) {
			return modelFacts{}, fmt.Errorf("%s %g is out of range", name, value)
		}
	}
	if e := facts.Epsilon; e != nil && !(*e > 0 && *e < 1) || !(facts.base() >= 0 && facts.base() < 1e9) {
		return modelFacts{}, errors.New("layer_norm_eps or the base of RoPE is out of range")
	}
	return facts, nil
}

//go:embed libraries.json
var librariesFile []byte

// libraries is libraries.json: what timm and transformers leave out of their files because it is the default, and what is known of timm's arguments.
var libraries = sync.OnceValue(func() (l struct {
	Models map[string]struct { // Of transformers, by model_type.
		Class     string
		Heads     int
		Epsilon   float64
		Processor string // The class of the image processor for files that do not say theirs.
	}
	// Processors are the classes of image processors that they have, without settings. Means and deviations are OpenAI's of CLIP, ImageNet's or one half.
	Processors map[string]processor

	// Free are arguments of timm's VisionTransformer and Eva that may have any value: the names and shapes of tensors show them, they are read here, or only
	// training, the head and other sizes of images need them. Accepts are the values that are computed here of arguments that change features and that no
	// tensor shows.
	Free    []string
	Accepts map[string][]any
}) {
	if err := json.Unmarshal(librariesFile, &l); err != nil {
		panic(err) // The file is part of the program.
	}
	return l
})

// argument is a number among timm's arguments: 0 if it is not there, NaN if it is no number.
func (f modelFacts) argument(name string) float64 {
	value, ok := f.ModelArgs[name].(float64)
	if f.ModelArgs[name] != nil && !ok {
		return math.NaN()
	}
	return value
}

// heads is the number of attention heads, 0 if it is not there.
func (f modelFacts) heads() int { return max(f.NumHeads, int(f.argument("num_heads"))) }

// base is the base of RoPE, 0 if it is not there.
func (f modelFacts) base() float64 { return cmp.Or(f.RoPETheta, f.argument("rope_temperature")) }

// check returns an error if the file is about another transformer.
func (f modelFacts) check(v encoder.ViT) error {
	if act, _ := f.ModelArgs["act_layer"].(string); act != "" && v.SwiGLU == (act == "gelu") {
		return fmt.Errorf("%s: model_args: act_layer %q is not that of the MLP", f.file, act)
	}
	for _, field := range []struct {
		name        string
		says, wants int
	}{
		{"hidden_size", f.HiddenSize, v.Dim}, {"num_hidden_layers", f.NumLayers, v.Depth},
		{"embed_dim", int(f.argument("embed_dim")), v.Dim}, {"depth", int(f.argument("depth")), v.Depth},
	} {
		if field.says != 0 && field.says != field.wants {
			return fmt.Errorf("%s: %s is %d, but that of the weights beside it is %d", f.file, field.name, field.says, field.wants)
		}
	}
	return nil
}
