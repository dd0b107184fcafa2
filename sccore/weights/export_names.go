package weights

import (
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/encoder"
)

// floats is a tensor in PyTorch's layout.
type floats struct {
	shape  []int
	values []float32
}

// named holds the weights of a transformer by name. Those of [encoder.ViT.Weights] are the starting point of every naming.
type named map[string]floats

// renamed applies replacements to every name.
func (a named) renamed(oldAndNew ...string) named {
	replacer, out := strings.NewReplacer(oldAndNew...), named{}
	for name, value := range a {
		out[replacer.Replace(name)] = value
	}
	return out
}

// split replaces a tensor by equal parts of its rows. A tensor that is not there is left out.
func (a named) split(name string, parts ...string) {
	whole, ok := a[name]
	if !ok {
		return
	}
	delete(a, name)
	size := len(whole.values) / len(parts)
	shape := slices.Clone(whole.shape)
	shape[0] /= len(parts)
	for i, part := range parts {
		a[part] = floats{shape, whole.values[i*size : (i+1)*size]}
	}
}

// fuseBiases makes one bias of queries, keys and values of the separate ones, with zeros for missing parts.
func (a named) fuseBiases(v encoder.ViT) {
	for i := range v.Depth {
		attention := fmt.Sprintf("blocks.%d.attn.", i)
		if v.Bias == encoder.QVBias {
			zeros := make([]float32, v.Dim)
			a[attention+"qkv.bias"] = floats{[]int{3 * v.Dim}, slices.Concat(a[attention+"q_bias"].values, zeros, a[attention+"v_bias"].values)}
			delete(a, attention+"q_bias")
			delete(a, attention+"v_bias")
		}
	}
}

// constant returns a tensor of equal values.
func constant(value float32, shape ...int) floats {
	size := 1
	for _, n := range shape {
		size *= n
	}
	return floats{shape, slices.Repeat([]float32{value}, size)}
}

// addClassPosition gives the [CLS] token a position of 0, which transformers with registers have outside timm.
func (a named) addClassPosition(v encoder.ViT) {
	if positions, ok := a["pos_embed"]; ok && v.Registers > 0 {
		a["pos_embed"] = floats{[]int{1, 1 + positions.shape[1], v.Dim}, slices.Concat(make([]float32, v.Dim), positions.values)}
	}
}

// timm returns the names of timm's VisionTransformer or, with RoPE, Eva.
func (a named) timm(v encoder.ViT) named {
	if v.RoPE.Base == 0 {
		a.fuseBiases(v)
		return a
	}
	for i := range v.Depth {
		mlp := fmt.Sprintf("blocks.%d.mlp.", i)
		for _, kind := range []string{"weight", "bias"} {
			if v.SwiGLU {
				a.split(mlp+"fc1."+kind, mlp+"fc1_g."+kind, mlp+"fc1_x."+kind)
			}
		}
	}
	return a.renamed(".ls1.gamma", ".gamma_1", ".ls2.gamma", ".gamma_2")
}

// official returns the names of the official code of DINO, DINOv2 or DINOv3. Mask tokens, which only pretraining reads, are 0.
func (a named) official(v encoder.ViT) named {
	if generation(v) == 1 {
		a.fuseBiases(v)
		return a
	}
	a["mask_token"] = constant(0, 1, v.Dim)
	a.addClassPosition(v)
	if generation(v) == 2 {
		a.fuseBiases(v)
		if v.SwiGLU {
			a = a.renamed(".fc1.", ".w12.", ".fc2.", ".w3.")
		}
		return a.renamed("reg_token", "register_tokens")
	}
	periods := v.RoPE.Periods(v.Dim / v.NumHeads)
	a["rope_embed.periods"] = floats{[]int{len(periods)}, periods}
	a.fuseBiases(v)
	for i := range v.Depth {
		block := fmt.Sprintf("blocks.%d.", i)
		mask := constant(1, 3*v.Dim)
		if v.Bias != encoder.QKVBias {
			clear(mask.values[v.Dim : 2*v.Dim])
		}
		if v.Bias == encoder.NoBias {
			a[block+"attn.qkv.bias"] = constant(0, 3*v.Dim)
		}
		a[block+"attn.qkv.bias_mask"] = mask
		for _, kind := range []string{"weight", "bias"} {
			if v.SwiGLU {
				a.split(block+"mlp.fc1."+kind, block+"mlp.w1."+kind, block+"mlp.w2."+kind)
			}
		}
	}
	if v.SwiGLU {
		a = a.renamed(".fc2.", ".w3.")
	}
	return a.renamed("reg_token", "storage_tokens")
}

// transformers returns the names of transformers' ViTModel, Dinov2Model, Dinov2WithRegistersModel or DINOv3ViTModel on the hub.
func (a named) transformers(v encoder.ViT) named {
	kind := kindOf(v)
	query, key, value := "attention.query", "attention.key", "attention.value"
	if kind == "dinov3_vit" {
		query, key, value = "q_proj", "k_proj", "v_proj"
	} else {
		a.fuseBiases(v)
	}
	a.addClassPosition(v)
	if kind != "vit" {
		a["mask_token"] = constant(0, 1, v.Dim)
		for i := range v.Depth {
			for _, scale := range []string{"ls1", "ls2"} {
				if name := fmt.Sprintf("blocks.%d.%s.gamma", i, scale); !v.LayerScale {
					a[name] = constant(1, v.Dim) // These classes always have LayerScale.
				}
			}
		}
	}
	for i := range v.Depth {
		block := fmt.Sprintf("blocks.%d.", i)
		for _, kind := range []string{"weight", "bias"} {
			part := func(name string) string { return block + "attention." + name + "." + kind }
			a.split(block+"attn.qkv."+kind, part(query), part(key), part(value))
		}
		if v.SwiGLU && kind == "dinov3_vit" {
			for _, kind := range []string{"weight", "bias"} {
				a.split(block+"mlp.fc1."+kind, block+"mlp.gate_proj."+kind, block+"mlp.up_proj."+kind)
			}
		}
	}
	common := []string{"cls_token", "embeddings.cls_token", "reg_token", "embeddings.register_tokens", "mask_token", "embeddings.mask_token",
		"pos_embed", "embeddings.position_embeddings", ".ls1.gamma", ".layer_scale1.lambda1", ".ls2.gamma", ".layer_scale2.lambda1"}
	if kind == "dinov3_vit" {
		a["mask_token"] = constant(0, 1, 1, v.Dim)
		return a.renamed(append(common, "patch_embed.proj.", "embeddings.patch_embeddings.", "blocks.", "layer.", "attn.q_bias", "attention.q_proj.bias",
			"attn.v_bias", "attention.v_proj.bias", "attn.proj.", "attention.o_proj.", "mlp.fc1.", "mlp.up_proj.", "mlp.fc2.", "mlp.down_proj.")...)
	}
	common = append(common, "patch_embed.proj.", "embeddings.patch_embeddings.projection.", "blocks.", "encoder.layer.", "attn.proj.", "attention.output.dense.",
		"norm.", "layernorm.")
	switch {
	case kind == "vit":
		common = append(common, "norm1.", "layernorm_before.", "norm2.", "layernorm_after.", "mlp.fc1.", "intermediate.dense.", "mlp.fc2.", "output.dense.")
	case v.SwiGLU:
		common = append(common, "mlp.fc1.", "mlp.weights_in.", "mlp.fc2.", "mlp.weights_out.")
	}
	return a.renamed(common...)
}
