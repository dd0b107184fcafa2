package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/safetensors"
)

// changed writes a member of a family with changed tensors to a folder of its own, and returns the path.
func changed(t *testing.T, name string, change func(named map[string]*tensors.Tensor)) string {
	t.Helper()
	from := filepath.Join("testdata", "families", name)
	named, _, err := safetensors.Read(filepath.Join(from, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	change(named)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := safetensors.Write(path, named, nil); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(path), "config.json"), config, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// reshaped returns a tensor with the same entries in another shape.
func reshaped(tensor *tensors.Tensor, dims ...int) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(tensors.MustCopyFlatData[float32](tensor), dims...)
}

// TestWeightsThatWouldBeReadWronglyAreRefused changes members of families to what other transformers have. Each was read without a word once.
func TestWeightsThatWouldBeReadWronglyAreRefused(t *testing.T) {
	extra := func(key string) func(map[string]*tensors.Tensor) {
		return func(named map[string]*tensors.Tensor) { named[key] = sine(1, 16) }
	}
	for name, c := range map[string]struct {
		file   string
		change func(named map[string]*tensors.Tensor)
		part   string
	}{
		"a normalisation before blocks": {"dino.timm", extra("norm_pre.weight"), "key norm_pre.weight is not understood"},
		"a normalisation of features":   {"dino.timm", extra("fc_norm.bias"), "key fc_norm.bias is not understood"},
		"a normalisation in attention":  {"dino.timm", extra("blocks.1.attn.norm.weight"), "key blocks.1.attn.norm.weight"},
		"a second class token":          {"dino.timm", extra("dist_token"), "key dist_token"},
		"relative positions":            {"dino.timm", extra("blocks.0.attn.relative_position_bias_table"), "relative_position_bias_table"},
		"in transformers":               {"dino.transformers", extra("encoder.layer.0.lambda_1"), "key encoder.layer.0.lambda_1"},
		"a block too many":              {"dino.timm", extra("blocks.7.norm1.weight"), "key blocks.7.norm1.weight: vit-16x2x2p4-grid4 has no such weight"},
		"two names of a weight":         {"dinov2.timm", extra("blocks.0.gamma_1"), "keys blocks.0.gamma_1 and blocks.0.ls1.gamma are the same weight"},
		"a key without its value": {"dino.transformers", func(named map[string]*tensors.Tensor) {
			delete(named, "encoder.layer.1.attention.attention.value.weight")
		}, "there is only encoder.layer.1.attention.attention.query.weight, encoder.layer.1.attention.attention.key.weight"},
		"EVA":          {"dinov3.timm", func(named map[string]*tensors.Tensor) { named["pos_embed"] = sine(2, 1, 16, 24) }, "key blocks.0.attn.q_bias: an EVA"},
		"no positions": {"dino.timm", func(named map[string]*tensors.Tensor) { delete(named, "pos_embed") }, "missing key pos_embed"},
		"a transposed matrix": {"dino.timm", func(named map[string]*tensors.Tensor) {
			named["blocks.0.attn.qkv.weight"] = reshaped(named["blocks.0.attn.qkv.weight"], 16, 48)
		}, "key blocks.0.attn.qkv.weight: has shape [16 48], the transformer wants [48 16]"},
		"flat positions": {"dino.timm", func(named map[string]*tensors.Tensor) {
			named["pos_embed"] = reshaped(named["pos_embed"], 17, 16)
		}, "key pos_embed: has shape [17 16], the transformer wants [1 1+grid² 16]"},
		"channels last": {"dino.timm", func(named map[string]*tensors.Tensor) {
			named["patch_embed.proj.weight"] = reshaped(named["patch_embed.proj.weight"], 16, 4, 3, 4)
		}, "key patch_embed.proj.weight: has shape [16 4 3 4]"},
		"registers without an axis": {"dinov2-reg.timm", func(named map[string]*tensors.Tensor) {
			named["reg_token"] = reshaped(named["reg_token"], 4, 16)
		}, "key reg_token: has shape [4 16], the transformer wants [1 registers 16]"},
	} {
		t.Run(name, func(t *testing.T) {
			path := changed(t, c.file, c.change)
			_, err := ReadViT(path, encoder.ViT{}, "")
			if err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.part) || strings.Contains(err.Error(), "\n") {
				t.Errorf("said %v, want %s", err, c.part)
			}
		})
	}
}

// TestProgramsAndModelsAreCalledSo reads what holds weights in another form.
func TestProgramsAndModelsAreCalledSo(t *testing.T) {
	for file, part := range map[string]string{
		"torchscript.pt":  "is TorchScript, a compiled program",
		"whole-model.pth": `holds one "torch.nn.modules.linear.Linear", and no vision transformer in a dictionary`,
	} {
		path := filepath.Join("testdata", "layouts", file)
		if _, err := ReadViT(path, encoder.ViT{}, ""); err == nil || !strings.HasPrefix(err.Error(), path+": "+part) {
			t.Errorf("said %v, want %s", err, part)
		}
	}
	_, err := ReadViT("testdata/layouts/moco-v3.pth.tar", encoder.ViT{NumHeads: 2}, "encoder")
	if undecided := (Undecided{}); !errors.As(err, &undecided) || undecided.Argument != "branch" || !strings.Contains(err.Error(), `"state_dict.module.base_encoder."`) {
		t.Errorf("a branch of two transformers: %v", err)
	}
}

func TestIgnoredKeysAreLeftOutAndRecorded(t *testing.T) {
	path := changed(t, "dino.timm", func(named map[string]*tensors.Tensor) {
		named["fc_norm.weight"], named["fc_norm.bias"], named["head.weight"] = sine(1, 16), sine(2, 16), sine(3, 2, 16)
	})
	im, err := ReadViT(path, encoder.ViT{}, "", "fc_*")
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, "ignored", im.Ignored, "fc_norm.weight", "fc_norm.bias")
	wantKeys(t, "unused", im.Unused, "head.weight")
	if !slices.Equal(im.Ignore, []string{"fc_*"}) || !strings.Contains(im.String(), "ignored") {
		t.Errorf("ignored %q:\n%s", im.Ignore, im)
	}
	for pattern, part := range map[string]string{"fc_norm": `the pattern "fc_norm" matches no key`, "*": "no vision transformer", "*norm*": "patches or blocks"} {
		if _, err := ReadViT(path, encoder.ViT{}, "", pattern); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("--ignore %s: %v", pattern, err)
		}
	}
}

// TestGridsAreKept reads positions of an unusual grid, and of one with positions for patches alone.
func TestGridsAreKept(t *testing.T) {
	v, err := encoder.ViTByName("vit-tiny-grid5")
	if err != nil {
		t.Fatal(err)
	}
	store, path := model.NewStore(), filepath.Join(t.TempDir(), "five.safetensors")
	for k, w := range v.Weights() {
		if _, err := store.CreateVariable("/"+w.Path, sine(k, w.Shape...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Export(path, Timm, store, "/", v, nil, nil); err != nil {
		t.Fatal(err)
	}
	im, err := ReadViT(path, encoder.ViT{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if im.ViT.GridSize != 5 || im.ViT.Name != "vit-tiny-grid5" || im.ViT.InitStd != 0.1 || len(im.Interpolated) > 0 {
		t.Errorf("read %+v\n%s", im.ViT, im)
	}
	patchesAlone := changed(t, "dino.timm", func(named map[string]*tensors.Tensor) { named["pos_embed"] = sine(1, 1, 25, 16) })
	if im, err = ReadViT(patchesAlone, encoder.ViT{}, ""); err != nil {
		t.Fatal(err)
	}
	positions := tensors.MustCopyFlatData[float32](im.values["pos_embed"])
	want := tensors.MustCopyFlatData[float32](sine(1, 1, 25, 16))
	if im.ViT.GridSize != 5 || len(positions) != 26*16 || positions[15] != 0 || !slices.Equal(positions[16:], want) {
		t.Errorf("read a grid of %d with %d values", im.ViT.GridSize, len(positions))
	}
}

// TestFactsBesideTheFile reads weights with a config.json that is wrong, hostile or of something else.
func TestFactsBesideTheFile(t *testing.T) {
	for content, part := range map[string]string{
		`{"model_type": "dinov2", "hidden_size": 768, "num_attention_heads": 12}`:               "hidden_size is 768, but that of the weights beside it is 16",
		`{"architecture": "vit_x", "model_args": {"depth": 12}}`:                                "depth is 12",
		`{"architecture": "vit_x", "model_args": {"num_heads": 2, "act_layer": "quick_gelu"}}`:  `model_args: act_layer "quick_gelu" is not known`,
		`{"architecture": "vit_x", "model_args": {"num_heads": 2, "act_layer": "silu"}}`:        `act_layer "silu" is not that of the MLP`,
		`{"architecture": "vit_x", "model_args": {"num_heads": 2, "norm_layer": "rmsnorm"}}`:    `norm_layer "rmsnorm"`,
		`{"architecture": "vit_x", "model_args": {"num_heads": 2, "block_fn": "ResPostBlock"}}`: `block_fn "ResPostBlock"`,
		`{"architecture": "vit_x", "model_args": {"num_heads": 2, "rope_rotate_half": false}}`:  `rope_rotate_half "false"`,
		`{"architecture": "vit_x", "model_args": {"num_heads": 2, "use_post_norm": true}}`:      `use_post_norm "true"`,
		`{"architecture": "vit_x", "model_args": {"num_heads": 2, "anything": {}}}`:             `anything "map[]" is not known`,
		`{"architecture": "vit_x", "model_args": {"num_heads": "2"}}`:                           "num_heads NaN is out of range",
		`{"model_type": "swin"}`:                                                 `model_type "swin"`,
		`{"model_type": "vit", "hidden_act": "quick_gelu"}`:                      `hidden_act "quick_gelu": want gelu`,
		`{"model_type": "vit", "use_gated_mlp": true, "num_attention_heads": 2}`: `hidden_act "gelu": want silu`,
		`{"model_type": "vit"}`:                                                  "Dim 16 is not a multiple of NumHeads 12",
		`{"model_type": "vit", "num_attention_heads": -2}`:                       "num_attention_heads -2 is out of range",
		`{"model_type": "vit", "num_attention_heads": 3}`:                        "Dim 16 is not a multiple of NumHeads 3",
		`{"model_type": "vit", "layer_norm_eps": -1, "num_attention_heads": 2}`:  "out of range",
		`{"model_type": 7}`:                                                      "cannot be read",
		`{`:                                                                      "cannot be read",
		`{"anything": "else"}`:                                                   "number of heads of its transformer of width 16 with 2 blocks and patches of 4 is not in the file",
		strings.Repeat(" ", maxConfig+1):                                         "larger than 1 MiB",
		`{"architecture": "vit_16", "num_features": 16}`:                         "number of heads",
	} {
		path := changed(t, "dino.timm", func(map[string]*tensors.Tensor) {})
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "config.json"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadViT(path, encoder.ViT{}, ""); err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80s: %v, want %s", content, err, part)
		}
	}
}

// TestEpsilonOfNormalisationsByName: timm's classes add 1e-6 by default, while the code of DINOv3 in timm asks for 1e-5.
func TestEpsilonOfNormalisationsByName(t *testing.T) {
	for layer, want := range map[string]float64{`null`: 1e-5, `"layernorm"`: 0, `"layernormfp32"`: 0} {
		path := changed(t, "dinov3.timm", func(map[string]*tensors.Tensor) {})
		config := `{"architecture": "vit_small_patch16_dinov3_qkvb", "model_args": {"num_heads": 2, "norm_layer": ` + layer + `}}`
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "config.json"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		if v, err := Identify(path); err != nil || v.RoPE.Base == 0 || v.Epsilon != want {
			t.Errorf("%s: epsilon %g, %v; want %g", layer, v.Epsilon, err, want)
		}
	}
}

// TestLargeHeadersTakeLittleMemory reads headers that would take many times their size.
func TestLargeHeadersTakeLittleMemory(t *testing.T) {
	repeated := func(n int, member string) string {
		var text strings.Builder
		text.WriteString("{")
		for i := range n {
			fmt.Fprintf(&text, member, i)
		}
		return strings.TrimSuffix(text.String(), ",") + "}"
	}
	const million = 1_000_000
	for name, c := range map[string]struct{ header, part string }{
		"many tensors":        {repeated(million/4, `"%d":{"dtype":"F32","shape":[],"data_offsets":[0,0]},`), "lists more than 147456 names"},
		"a million facts":     {`{"__metadata__":` + repeated(million, `"%d":"",`) + "}", "lists more than 147456 names"},
		"facts with spaces":   {`{"__metadata__":` + repeated(million, `"%d" :"",`) + "}", "lists more than 147456 names"},
		"fields with spaces":  {`{"a":` + repeated(million, `"%d" :0,`) + "}", "lists more than 147456 names"},
		"a fact of 4 MB":      {`{"__metadata__":{"a":"` + strings.Repeat(`\n`, 2<<20) + `"}}`, "no vision transformer"},
		"a fact of 17 MB":     {`{"__metadata__":{"a":"` + strings.Repeat(`a`, 17<<20) + `"}}`, "header of 17825817 bytes"},
		"a name of 8 MB":      {`{"` + strings.Repeat("a", 8<<20) + `":1}`, "longer than 64 KiB"},
		"a shape of 8 MB":     {`{"a":{"shape":[` + strings.Repeat("1,", 4<<20) + "1]}}", "longer than 64 KiB"},
		"a number of 8 MB":    {`{"a":{"shape":[` + strings.Repeat("1", 8<<20) + "]}}", "longer than 64 KiB"},
		"a shape of null":     {`{"a":{"dtype":"F32","shape":null,"data_offsets":[0,0]}}`, "want dtype, shape and two data_offsets"},
		"an offset of null":   {`{"a":{"dtype":"F32","shape":[0],"data_offsets":[null,0]}}`, "want dtype, shape and two data_offsets"},
		"unknown fields":      {`{"a":{"b":` + strings.Repeat("[", 8<<20), "exceeded max depth"},
		"a million doubled":   {`{"a":{"dtype":` + strings.Repeat(`"F32","dtype":`, million), "lists more than 147456 names"},
		"a doubled field":     {`{"a":{"dtype":"F32","dtype":"F32"}}`, `duplicate object member name "dtype"`},
		"an unknown field":    {`{"a":{"b":0}}`, `unknown object member name "b"`},
		"backslashes of 8 MB": {`{"` + strings.Repeat(`\`, 8<<20) + `":1}`, "longer than 64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.safetensors")
			content := file(c.header, 0)
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
			var err error
			taken := allocated(func() { _, err = ReadViT(path, tiny, "") })
			if err == nil || !strings.Contains(err.Error(), c.part) || len(err.Error()) > 320+len(path) {
				t.Errorf("said %.500v, want %s", err, c.part)
			}
			if taken > 64<<20+uint64(len(content)) {
				t.Errorf("%d bytes took %d of memory", len(content), taken)
			}
		})
	}
	index := map[string]string{}
	for i := range 100_000 {
		index[fmt.Sprint(i)] = "a.safetensors"
	}
	text, err := json.Marshal(map[string]any{"weight_map": index})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.safetensors.index.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if taken := allocated(func() { _, err = ReadViT(path, tiny, "") }); err == nil || taken > 64<<20 {
		t.Errorf("an index of %d bytes took %d of memory: %v", len(text), taken, err)
	}
}

// TestHeadsOfMoCo: its ViT-S has twelve heads, and others of its width have six.
func TestHeadsOfMoCo(t *testing.T) {
	small := encoder.ViT{Dim: 384, Depth: 12, PatchSize: 16, GridSize: 14}
	for prefix, want := range map[string]int{"state_dict.module.base_encoder.": 12, "module.momentum_encoder.": 12, "": 6, "teacher.backbone.": 6} {
		if got := (evidence{prefix: prefix}).heads(small); got != want {
			t.Errorf("%q: %d heads, want %d", prefix, got, want)
		}
	}
}

// TestWantedTransformer: who names a transformer says nothing about how its positions are resized, and has its heads compared with the file's.
func TestWantedTransformer(t *testing.T) {
	path := changed(t, "dino.transformers", func(map[string]*tensors.Tensor) {})
	found, err := ReadViT(path, encoder.ViT{}, "")
	if err != nil {
		t.Fatal(err)
	}
	wanted := found.ViT
	wanted.Positions = ""
	if read, err := ReadViT(path, wanted, ""); err != nil || read.ViT.Positions != encoder.TransformersPositions {
		t.Errorf("positions %+v, %v", read, err)
	}
	wanted.NumHeads *= 2
	if _, err := ReadViT(path, wanted, ""); err == nil || !strings.Contains(err.Error(), "its transformer has 2 heads") {
		t.Errorf("of other heads: %v", err)
	}
}

// TestFixedPositionsLeaveHeadsOpen: in a narrow transformer whose positions are sines nothing tells MoCo v3's heads from those of others.
func TestFixedPositionsLeaveHeadsOpen(t *testing.T) {
	small := encoder.ViT{Dim: 384, Depth: 12, PatchSize: 16, GridSize: 14}
	for class, want := range map[float32]int{0: 0, 1: 6} {
		positions := source{shape: []int{1, 197, 384}, floats: func() ([]float32, error) { return append([]float32{class}, make([]float32, 197*384-1)...), nil }}
		if got := (evidence{names: Official, all: map[string]source{"pos_embed": positions}}).heads(small); got != want {
			t.Errorf("%g at [CLS]: %d heads, want %d", class, got, want)
		}
	}
	if got, err := choosePrefix([]string{"encoder.module.", "target_encoder.module."}, ""); err == nil || !errors.As(err, new(Undecided)) {
		t.Errorf("MSN's branches: %q, %v", got, err)
	}
}

// TestPositionsOfAllTokens: timm may keep position embeddings of [CLS] and of the registers, which it adds to them.
func TestPositionsOfAllTokens(t *testing.T) {
	const tokens = 5
	moved := func(named map[string]*tensors.Tensor) {
		class, registers, positions := values(named["cls_token"]), values(named["reg_token"]), values(named["pos_embed"])
		dim := len(class)
		prefix := make([]float32, tokens*dim)
		for i := range prefix {
			prefix[i] = float32(i)
			if i < dim {
				class[i] -= prefix[i]
			} else {
				registers[i-dim] -= prefix[i]
			}
		}
		named["cls_token"], named["reg_token"] = tensors.FromFlatDataAndDimensions(class, 1, 1, dim), tensors.FromFlatDataAndDimensions(registers, 1, tokens-1, dim)
		named["pos_embed"] = tensors.FromFlatDataAndDimensions(append(prefix, positions...), 1, tokens+len(positions)/dim, dim)
	}
	wanted := encoder.ViT{NumHeads: 2}
	before, err := ReadViT(changed(t, "dinov2-reg.timm", func(map[string]*tensors.Tensor) {}), wanted, "")
	if err != nil {
		t.Fatal(err)
	}
	after, err := ReadViT(changed(t, "dinov2-reg.timm", moved), wanted, "")
	if err != nil || after.ViT != before.ViT {
		t.Fatalf("%+v and %+v, %v", before.ViT, after, err)
	}
	for path, want := range before.values {
		if got := values(after.values[path]); !slices.EqualFunc(got, values(want), func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-4 }) {
			t.Errorf("%s differs", path)
		}
	}
}

func values(x *tensors.Tensor) []float32 { return tensors.MustCopyFlatData[float32](x) }

// TestRotaryPositionsBesideStoredOnesAreRefused: timm does not store their periods, so the keys are those of a transformer without them.
func TestRotaryPositionsBesideStoredOnesAreRefused(t *testing.T) {
	for architecture, want := range map[string]string{"vit_small_patch16_rope_ape_224": `config.json: the rotary positions of "vit_small_patch16_rope_ape_224" are not known`, "vit_small_patch16_224": ""} {
		err := evidence{facts: modelFacts{Architecture: architecture, file: "config.json"}}.rotate(&encoder.ViT{Dim: 384, Depth: 12, PatchSize: 16, GridSize: 14})
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v", architecture, err)
		}
	}
}

// TestConfigsOfTimm: transformers saves timm's models with a config of its own around timm's, and LingBot's rotary positions are DINOv3's.
func TestConfigsOfTimm(t *testing.T) {
	facts, err := parseFacts([]byte(`{"model_type": "timm_wrapper", "architecture": "vit_small_patch16_224", "pretrained_cfg": {}}`))
	if err != nil || facts.ModelType != "" || facts.Architecture != "vit_small_patch16_224" {
		t.Errorf("%+v, %v", facts, err)
	}
	v := encoder.ViT{Dim: 384, Depth: 12, PatchSize: 16, NumHeads: 6, Registers: 4, LayerScale: true}
	if err := (evidence{facts: modelFacts{Architecture: "vit_small_patch16_lingbot"}}).rotate(&v); err != nil || v.RoPE.Base != 100 {
		t.Errorf("base %g, %v", v.RoPE.Base, err)
	}
}

// TestNamesOfLaterTransformers reads a ViT by the names that its modules have since version 5.
func TestNamesOfLaterTransformers(t *testing.T) {
	names := strings.NewReplacer("encoder.layer.", "layers.", "attention.attention.query", "attention.q_proj", "attention.attention.key", "attention.k_proj",
		"attention.attention.value", "attention.v_proj", "attention.output.dense", "attention.o_proj", "intermediate.dense", "mlp.fc1", "output.dense", "mlp.fc2")
	renamed := changed(t, "dino.transformers", func(named map[string]*tensors.Tensor) {
		for _, key := range slices.Collect(maps.Keys(named)) {
			value := named[key]
			delete(named, key)
			named[names.Replace(key)] = value
		}
	})
	before, err := ReadViT(changed(t, "dino.transformers", func(map[string]*tensors.Tensor) {}), encoder.ViT{NumHeads: 2}, "")
	if err != nil {
		t.Fatal(err)
	}
	after, err := ReadViT(renamed, encoder.ViT{NumHeads: 2}, "")
	if err := errors.Join(err, after.Complete()); err != nil {
		t.Fatal(err)
	}
	if after.ViT != before.ViT || len(after.Unused) > 0 {
		t.Errorf("%+v, unused %q; want %+v", after.ViT, after.Unused, before.ViT)
	}
}
