package weights

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
)

// ModelFile is the name of the file of weights in a folder that timm or transformers loads as a whole.
const ModelFile = "model.safetensors"

// WriteConfig writes what timm or transformers reads beside the file of weights of an export: config.json and, for transformers, the
// preprocessor_config.json of its image processors. size is the side of a crop in pixels. There is nothing to write under official names.
func WriteConfig(weightsFile string, naming Naming, v encoder.ViT, p datasets.Preprocessing, size int) (err error) {
	defer try.Handle(&err)
	files := map[string]map[string]any{}
	switch naming {
	case Timm:
		files["config.json"] = timmConfig(v, p, size)
	case Transformers:
		files["config.json"] = transformersConfig(v)
		files["preprocessor_config.json"] = processorConfig(p, size)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := try.E1(json.MarshalIndent(files[name], "", "  "))
		try.E(atomicfile.WriteBytes(filepath.Join(filepath.Dir(weightsFile), name), append(content, '\n')))
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
		if _, isCode := a.value.(code); !isCode {
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
}

// code is a value in Python, which a config.json cannot hold.
type code string

// python is the argument in a call.
func (a argument) python() string {
	switch value := a.value.(type) {
	case nil:
		return a.name + "=None"
	case bool:
		return a.name + map[bool]string{true: "=True", false: "=False"}[value]
	case string:
		return fmt.Sprintf("%s=%q", a.name, value)
	}
	return fmt.Sprintf("%s=%v", a.name, a.value)
}

// timmArguments are the arguments of timm's VisionTransformer or, with RoPE, Eva that make it v.
func timmArguments(v encoder.ViT) (all []argument) {
	rotated, later, gated, biased, epsilon := v.RoPE.Base > 0, generation(v) > 1, v.SwiGLU, v.Bias != encoder.NoBias, cmp.Or(v.Epsilon, 1e-6)
	registers := map[bool]string{true: "num_reg_tokens", false: "reg_tokens"}[rotated]
	for _, row := range []struct {
		given bool
		argument
	}{
		{!rotated, argument{"img_size", v.PatchSize * v.GridSize}},
		{true, argument{"patch_size", v.PatchSize}},
		{true, argument{"embed_dim", v.Dim}},
		{true, argument{"depth", v.Depth}},
		{true, argument{"num_heads", v.NumHeads}},
		{later || hidden(v) != 4*v.Dim, argument{"mlp_ratio", timmRatio(v)}},
		{v.LayerScale, argument{"init_values", 1e-5}},
		{later && !v.LayerScale, argument{"init_values", nil}},
		{later, argument{registers, v.Registers}},
		{rotated || !biased, argument{"qkv_bias", biased}},
		{v.QKNorm, argument{"qk_norm", true}},
		{rotated, argument{"use_abs_pos_emb", false}},
		{rotated, argument{"use_rot_pos_emb", true}},
		{rotated, argument{"rope_type", "dinov3"}},
		{rotated, argument{"rope_temperature", v.RoPE.Base}},
		{rotated, argument{"rope_rotate_half", true}},
		{rotated, argument{"global_pool", "token"}},
		{rotated && gated, argument{"swiglu_mlp", true}},
		{rotated && gated, argument{"swiglu_align_to", 1}},
		{!rotated && v.Registers > 0, argument{"no_embed_class", true}},
		{!rotated && gated, argument{"mlp_layer", code("timm.layers.SwiGLUPacked")}},
		{!rotated && gated, argument{"act_layer", code("torch.nn.SiLU")}},
		{rotated || epsilon != 1e-6, argument{"norm_layer", code(fmt.Sprintf("functools.partial(torch.nn.LayerNorm, eps=%g)", epsilon))}},
	} {
		if row.given {
			all = append(all, row.argument)
		}
	}
	return all
}

// timmRatio is timm's mlp_ratio.
func timmRatio(v encoder.ViT) float64 {
	width := hidden(v)
	if v.SwiGLU && v.RoPE.Base == 0 {
		width *= 2 // timm counts both halves.
	}
	ratio := float64(width) / float64(v.Dim)
	if int(float64(v.Dim)*ratio) != width {
		ratio = (float64(width) + 0.5) / float64(v.Dim) // timm rounds the product down.
	}
	return ratio
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

// Card is the model card of exported weights: what a reader needs who finds the file alone.
type Card struct {
	ViT           encoder.ViT
	Preprocessing datasets.Preprocessing // What the transformer expects.
	Size          int                    // Side of a crop in pixels.
	Naming        Naming                 // Whose names the file has; timm's if empty.
	Head          bool                   // The file also holds a projection head.
	Facts         []Fact                 // Where the weights come from: settings, data, records.
}

// usualSize is the side in pixels of the crops that programs take where nothing else is said.
const usualSize = 224

// Fact is a line of a card. A text that is JSON or has several lines becomes a block.
type Fact struct{ Name, Text string }

// CardPath returns where the card of a file of weights lies: FILE.md beside FILE.safetensors, or README.md in a folder.
func CardPath(weightsFile string) string {
	if extension := filepath.Ext(weightsFile); extension != "" {
		return strings.TrimSuffix(weightsFile, extension) + ".md"
	}
	return filepath.Join(weightsFile, "README.md")
}

// Write writes the card beside a file of weights, atomically.
func (c Card) Write(weightsFile string) error {
	return atomicfile.WriteBytes(CardPath(weightsFile), []byte(c.markdown(filepath.Base(weightsFile))))
}

//go:embed card.md
var cardText string

// markdown is the text of a card: card.md with what it names.
func (c Card) markdown(file string) string {
	var text strings.Builder
	library, program := c.python(file)
	functions := template.FuncMap{"isBlock": func(text string) bool { return strings.ContainsAny(text, "\n{") }, "trim": func(text string) string { return strings.Trim(text, "\n") }}
	err := template.Must(template.New("card").Funcs(functions).Parse(cardText)).Execute(&text, struct {
		Card
		File, Parts, Library, Python string
		FilterBlock, UsualSize       int
	}{c, file, strings.Join(parts(c.ViT), ", "), library, program, c.ViT.Depth - c.ViT.BlocksAfterFilter, usualSize})
	if err != nil {
		panic(err) // The file is part of the program.
	}
	return text.String()
}

// parts names the parts of a transformer that its sizes do not say.
func parts(v encoder.ViT) (all []string) {
	add := func(has bool, format string, values ...any) {
		if has {
			all = append(all, fmt.Sprintf(format, values...))
		}
	}
	add(v.GridSize > 0, "positions of a grid of %[1]d×%[1]d, resized as in %[2]s", v.GridSize, v.Positions)
	add(v.RoPE.Base > 0, "RoPE with base %g", v.RoPE.Base)
	add(v.RoPE.Base > 0 && v.RoPE.BF16, "its periods rounded to bfloat16")
	add(v.Registers > 0, "%d registers", v.Registers)
	add(v.SwiGLU, "SwiGLU")
	return all
}

// python is how to load the file in Python with the library that has its names.
func (c Card) python(file string) (library, program string) {
	v := c.ViT
	load := fmt.Sprintf("model.load_state_dict(safetensors.torch.load_file(%q)", file)
	switch c.Naming {
	case Official:
		library = fmt.Sprintf("the official code of DINO, version %d", generation(v))
		return library, "import safetensors.torch\n" + load + ")  # model has this size, without its weights"
	case Transformers:
		class := transformersConfig(v)["architectures"].([]string)[0]
		more := map[bool]string{true: ", add_pooling_layer=False"}[class == "ViTModel"]
		return "transformers, from this folder", "import transformers\nmodel = transformers." + class + `.from_pretrained("."` + more + ").eval()"
	}
	class, modules := "VisionTransformer", "safetensors.torch, timm"
	if v.RoPE.Base > 0 {
		class = "Eva"
	}
	var arguments []string
	for _, a := range timmArguments(v) {
		arguments = append(arguments, a.python())
		if _, isCode := a.value.(code); isCode {
			modules = "functools, safetensors.torch, timm, torch"
		}
	}
	end := ")"
	switch err := Timm.Fits(v); {
	case v.Prototypes > 0:
		end = ", strict=False)  # timm has no filter and leaves it out: other features"
	case v.RoPE.BF16:
		end = ")  # timm does not round periods to bfloat16: other features"
	case err != nil:
		end = ", strict=False)  # " + err.Error()
	case c.Head:
		end = ", strict=False)  # without the projection head"
	}
	return "timm", fmt.Sprintf("import %s\nmodel = timm.models.%s(%s, num_classes=0, dynamic_img_size=True).eval()\n%s%s",
		modules, class, strings.Join(arguments, ", "), load, end)
}
