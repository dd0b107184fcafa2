package weights

import (
	"cmp"
	"fmt"

	"github.com/semcon/semcon/sccore/encoder"
)

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
