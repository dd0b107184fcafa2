package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
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
