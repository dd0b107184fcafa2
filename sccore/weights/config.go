package weights

import (
	"cmp"
	"encoding/json"
	"fmt"
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
	config := map[string]any{
		"architecture": timmArchitecture(v), "num_classes": 0, "num_features": v.Dim, "global_pool": "token", "model_args": arguments,
		"pretrained_cfg": map[string]any{
			"input_size": []int{3, size, size}, "interpolation": p.Interpolation, "crop_pct": share, "crop_mode": p.CropMode,
			"mean": p.Mean, "std": p.Std, "num_classes": 0, "pool_size": nil, "first_conv": "patch_embed.proj", "classifier": "head",
		},
	}
	if p.CropFloor {
		config["crop_floor"] = true // Ours; timm rounds to even.
	}
	return config
}

// transformersConfig is the config.json of the class of transformers that has the parts of v.
func transformersConfig(v encoder.ViT) map[string]any {
	kind, biased := Transformers.code(v), v.Bias != encoder.NoBias
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
	if !p.CropFloor {
		config["crop_floor"] = false // Ours; transformers rounds down.
	}
	return config
}

// timmArchitecture is timm's name of a transformer with the parts of v and, if there is one, with its size.
func timmArchitecture(v encoder.ViT) string {
	size := map[int]string{384: "small", 768: "base", 1024: "large"}[v.Dim]
	biased := map[bool]string{true: "_qkvb"}[v.Bias != encoder.NoBias]
	registers := map[bool]string{true: "reg4_"}[v.Registers > 0]
	switch {
	case generation(v) == 3 && v.SwiGLU && v.Dim == 1280:
		return "vit_huge_plus_patch16_dinov3" + biased
	case generation(v) == 3 && v.SwiGLU:
		return "vit_small_plus_patch16_dinov3" + biased
	case generation(v) == 3:
		return "vit_" + cmp.Or(size, "small") + "_patch16_dinov3" + biased
	case v.SwiGLU:
		return "vit_giant_patch14_" + registers + "dinov2"
	case generation(v) == 2:
		return "vit_" + cmp.Or(size, "small") + "_patch14_" + registers + "dinov2"
	case v.PatchSize == 8 && size == "base":
		return "vit_base_patch8_224"
	}
	return "vit_" + cmp.Or(size, "base") + "_patch16_224"
}

// argument is one of a timm class.
type argument struct {
	name  string
	value any
	code  bool // The value is Python, which a config.json cannot hold.
}

// python is the argument in a call.
func (a argument) python() string {
	switch value := a.value.(type) {
	case nil:
		return a.name + "=None"
	case bool:
		return a.name + map[bool]string{true: "=True", false: "=False"}[value]
	case string:
		if !a.code {
			return fmt.Sprintf("%s=%q", a.name, value)
		}
	}
	return fmt.Sprintf("%s=%v", a.name, a.value)
}

// timmArguments are the arguments of timm's VisionTransformer or, with RoPE, Eva that make it v.
func timmArguments(v encoder.ViT) (all []argument) {
	add := func(name string, value any) { all = append(all, argument{name: name, value: value}) }
	code := func(name, value string) { all = append(all, argument{name, value, true}) }
	rotated, registers := v.RoPE.Base > 0, map[bool]string{true: "num_reg_tokens", false: "reg_tokens"}[v.RoPE.Base > 0]
	if !rotated {
		add("img_size", v.PatchSize*v.GridSize)
	}
	add("patch_size", v.PatchSize)
	add("embed_dim", v.Dim)
	add("depth", v.Depth)
	add("num_heads", v.NumHeads)
	if generation(v) > 1 || hidden(v) != 4*v.Dim {
		width := hidden(v)
		if v.SwiGLU && !rotated {
			width *= 2 // timm counts both halves.
		}
		ratio := float64(width) / float64(v.Dim)
		if int(float64(v.Dim)*ratio) != width {
			ratio = (float64(width) + 0.5) / float64(v.Dim) // timm rounds the product down.
		}
		add("mlp_ratio", ratio)
	}
	if v.LayerScale {
		add("init_values", 1e-5)
	} else if generation(v) > 1 {
		add("init_values", nil)
	}
	if generation(v) > 1 {
		add(registers, v.Registers)
	}
	if v.Bias == encoder.NoBias {
		add("qkv_bias", false)
	}
	if v.QKNorm {
		add("qk_norm", true)
	}
	switch {
	case rotated:
		if v.Bias != encoder.NoBias {
			add("qkv_bias", true)
		}
		add("use_abs_pos_emb", false)
		add("use_rot_pos_emb", true)
		add("rope_type", "dinov3")
		add("rope_temperature", v.RoPE.Base)
		add("rope_rotate_half", true)
		add("global_pool", "token")
		if v.SwiGLU {
			add("swiglu_mlp", true)
			add("swiglu_align_to", 1)
		}
	case v.Registers > 0:
		add("no_embed_class", true)
	}
	if v.SwiGLU && !rotated {
		code("mlp_layer", "timm.layers.SwiGLUPacked")
		code("act_layer", "torch.nn.SiLU")
	}
	if epsilon := cmp.Or(v.Epsilon, 1e-6); epsilon != 1e-6 || rotated {
		code("norm_layer", fmt.Sprintf("functools.partial(torch.nn.LayerNorm, eps=%g)", epsilon))
	}
	return all
}

// hidden is the width of the hidden layer of the MLP.
func hidden(v encoder.ViT) int { return cmp.Or(v.MLPWidth, 4*v.Dim) }

// mlpRatio is the mlp_ratio of transformers' DINOv2, a whole number.
func mlpRatio(v encoder.ViT) (int, error) {
	for ratio := 1; ratio <= 64; ratio++ {
		width := ratio * v.Dim
		if v.SwiGLU {
			width = (width*2/3 + 7) / 8 * 8
		}
		if width == hidden(v) {
			return ratio, nil
		}
	}
	return 0, fmt.Errorf("the %s of transformers has no MLP of width %d for tokens of width %d", Transformers.code(v), hidden(v), v.Dim)
}
