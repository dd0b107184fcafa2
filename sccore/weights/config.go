package weights

import (
	"cmp"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
)

// ModelFile is the name of the file of weights in a folder that timm or transformers loads as a whole.
const ModelFile = "model.safetensors"

// WriteConfig writes what timm or transformers reads beside the file of weights of an export: config.json and, for transformers, the
// preprocessor_config.json of its image processors. size is the side of a crop in pixels. There is nothing to write under official names.
func WriteConfig(weightsFile string, naming Naming, v encoder.ViT, p datasets.Preprocessing, size int) error {
	files := map[string]map[string]any{}
	switch naming {
	case Timm:
		files["config.json"] = timmConfig(v, p, size)
	case Transformers:
		files["config.json"] = transformersConfig(v)
		files["preprocessor_config.json"] = processorConfig(p, size)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := json.MarshalIndent(files[name], "", "  ")
		if err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(filepath.Join(filepath.Dir(weightsFile), name), append(content, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// resizedSide is the length that a side is resized to for crops of size pixels.
func resizedSide(p datasets.Preprocessing, size int) int {
	return cmp.Or(p.Resize, int(float64(size)/p.CropPct))
}

// timmConfig is the config.json of timm's models on the hub. All arguments that v decides are in it, whatever the architecture's own are.
func timmConfig(v encoder.ViT, p datasets.Preprocessing, size int) map[string]any {
	arguments := map[string]any{}
	for _, a := range timmArguments(v) {
		if !a.code {
			arguments[a.name] = a.value
		}
	}
	share := p.CropPct
	if p.Resize > 0 {
		share = float64(size) / (float64(p.Resize) + 0.5) // timm rounds the quotient down.
	}
	return map[string]any{
		"architecture": timmArchitecture(v), "num_classes": 0, "num_features": v.Dim, "global_pool": "token", "model_args": arguments,
		"pretrained_cfg": map[string]any{
			"input_size": []int{3, size, size}, "interpolation": p.Interpolation, "crop_pct": share, "crop_mode": p.CropMode,
			"mean": p.Mean, "std": p.Std, "num_classes": 0, "pool_size": nil, "first_conv": "patch_embed.proj", "classifier": "head",
		},
	}
}

// transformersConfig is the config.json of the class of transformers that has the parts of v.
func transformersConfig(v encoder.ViT) map[string]any {
	kind, biased := kindOf(v), v.Bias != encoder.NoBias
	config := map[string]any{
		"model_type": kind, "hidden_size": v.Dim, "num_hidden_layers": v.Depth, "num_attention_heads": v.NumHeads, "patch_size": v.PatchSize,
		"image_size": v.PatchSize * cmp.Or(v.GridSize, 14), "num_channels": 3, "hidden_act": "gelu", "layer_norm_eps": decimal(cmp.Or(v.Epsilon, 1e-6)),
		"dtype": "float32",
	}
	set := func(more map[string]any) { maps.Copy(config, more) }
	switch kind {
	case "vit":
		set(map[string]any{"architectures": []string{"ViTModel"}, "intermediate_size": hidden(v), "qkv_bias": biased})
	case "dinov3_vit":
		set(map[string]any{"architectures": []string{"DINOv3ViTModel"}, "intermediate_size": hidden(v), "num_register_tokens": v.Registers,
			"rope_theta": decimal(v.RoPE.Base), "use_gated_mlp": v.SwiGLU, "query_bias": biased, "value_bias": biased, "key_bias": v.Bias == encoder.QKVBias})
		if v.SwiGLU {
			config["hidden_act"] = "silu" // Of the gate.
		}
	default:
		ratio, _ := mlpRatio(v)
		set(map[string]any{"architectures": []string{"Dinov2Model"}, "mlp_ratio": ratio, "use_swiglu_ffn": v.SwiGLU, "qkv_bias": biased})
		if v.Registers > 0 {
			set(map[string]any{"architectures": []string{"Dinov2WithRegistersModel"}, "num_register_tokens": v.Registers})
		}
	}
	return config
}

// decimal is a number with a decimal point, without which transformers takes it for an integer and refuses it.
func decimal(x float64) json.RawMessage {
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return json.RawMessage(text)
}

// processorConfig is the preprocessor_config.json of transformers.
func processorConfig(p datasets.Preprocessing, size int) map[string]any {
	resized, resample := resizedSide(p, size), 3
	if p.Interpolation == datasets.Bilinear {
		resample = 2
	}
	config := map[string]any{
		"image_processor_type": "BitImageProcessor", "do_convert_rgb": true, "do_resize": true, "resample": resample, "do_center_crop": resized != size,
		"size": map[string]int{"shortest_edge": resized}, "crop_size": map[string]int{"height": size, "width": size},
		"do_rescale": true, "rescale_factor": 1. / 255, "do_normalize": true, "image_mean": p.Mean, "image_std": p.Std,
	}
	if p.CropMode == datasets.Squash {
		config["size"] = map[string]int{"height": resized, "width": resized}
	}
	if p.CropMode == datasets.CentreCrop {
		config["do_center_crop"] = true
	}
	return config
}
