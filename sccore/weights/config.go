package weights

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"github.com/dsnet/try"
	"github.com/samber/lo"
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
	files := map[Naming]map[string]string{
		Timm: {"config.json": "timm"}, Transformers: {"config.json": "transformers", "preprocessor_config.json": "processor"},
	}[naming]
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var values map[string]json.RawMessage
		try.E(json.Unmarshal([]byte(libraryOf(Card{ViT: v, Preprocessing: p, Size: size}, "").text(files[name])), &values))
		content := try.E1(json.MarshalIndent(values, "", "  "))
		try.E(atomicfile.WriteBytes(filepath.Join(filepath.Dir(weightsFile), name), append(content, '\n')))
	}
	return nil
}

//go:embed libraries.tmpl card.md
var templateFiles embed.FS

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"join": strings.Join,
		"json": func(value any) (string, error) { text, err := json.Marshal(value); return string(text), err },
		"decimal": func(x float64) string {
			text := strconv.FormatFloat(x, 'f', -1, 64)
			if !strings.Contains(text, ".") {
				text += ".0"
			}
			return text
		},
		"isBlock": func(text string) bool { return strings.ContainsAny(text, "\n{") },
		"trim":    func(text string) string { return strings.Trim(text, "\n") },
	}).ParseFS(templateFiles, "*"))
})

// library is what the templates, card.md and those of libraries.tmpl, say of weights with a card.
type library struct {
	Card
	File                                                                         string
	Rotated, Later, Biased, OddMLP                                               bool
	Generation, ImageSize, UsualImage, FilterBlock, UsualSize, Resized, MLPRatio int
	Epsilon, TimmRatio, CropPct, RescaleFactor                                   float64
	Kind, Class, TimmClass, TimmSize, Unfit                                      string
}

func libraryOf(c Card, file string) library {
	v, p := c.ViT, c.Preprocessing
	l := library{
		Card: c, File: file, Rotated: v.RoPE.Base > 0, Later: generation(v) > 1, Biased: v.Bias != encoder.NoBias, OddMLP: v.Hidden() != 4*v.Dim,
		Generation: generation(v), ImageSize: v.PatchSize * v.GridSize, UsualImage: 14 * v.PatchSize,
		Resized: cmp.Or(p.Resize, int(float64(c.Size)/p.CropPct)), Epsilon: cmp.Or(v.Epsilon, 1e-6), TimmRatio: timmRatio(v), CropPct: p.CropPct,
		RescaleFactor: 1. / 255, FilterBlock: v.Depth - v.BlocksAfterFilter, UsualSize: usualSize,
		Kind: Transformers.code(v), Class: libraries().Models[Transformers.code(v)].Class, TimmClass: Timm.code(v), TimmSize: map[int]string{384: "small", 768: "base", 1024: "large"}[v.Dim],
	}
	l.MLPRatio, _ = mlpRatio(v)
	if p.Resize > 0 {
		l.CropPct = float64(c.Size) / (float64(p.Resize) + 0.5) // timm rounds the quotient down.
	}
	if err := Timm.Fits(v); err != nil {
		l.Unfit = err.Error()
	}
	return l
}

// text is a template of the library.
func (l library) text(name string) string {
	var text strings.Builder
	if err := templates().ExecuteTemplate(&text, name, l); err != nil {
		panic(err) // The file is part of the program.
	}
	return text.String()
}

// Arguments are those of timm's class in Python, such as "depth=12".
func (l library) Arguments() []string {
	return strings.FieldsFunc(l.text("arguments"), func(r rune) bool { return r == '\n' })
}

// JSONArguments are those that JSON can hold. The others are code.
func (l library) JSONArguments() map[string]any {
	all := map[string]any{}
	for _, argument := range l.Arguments() {
		name, text, _ := strings.Cut(argument, "=")
		var value any
		if json.Unmarshal([]byte(strings.NewReplacer("True", "true", "False", "false", "None", "null").Replace(text)), &value) == nil {
			all[name] = value
		}
	}
	return all
}

// NeedsTorch says that an argument is code.
func (l library) NeedsTorch() bool { return len(l.JSONArguments()) < len(l.Arguments()) }

// timmRatio is timm's mlp_ratio.
func timmRatio(v encoder.ViT) float64 {
	width := v.Hidden()
	if v.SwiGLU && v.RoPE.Base == 0 {
		width *= 2 // timm counts both halves.
	}
	ratio := float64(width) / float64(v.Dim)
	if int(float64(v.Dim)*ratio) != width {
		ratio = (float64(width) + 0.5) / float64(v.Dim) // timm rounds the product down.
	}
	return ratio
}

// mlpRatio is the mlp_ratio of transformers' DINOv2, a whole number.
func mlpRatio(v encoder.ViT) (int, error) {
	for ratio := 1; ratio <= 64; ratio++ {
		width := ratio * v.Dim
		if lo.Ternary(v.SwiGLU, (width*2/3+7)/8*8, width) == v.Hidden() {
			return ratio, nil
		}
	}
	return 0, fmt.Errorf("the %s of transformers has no MLP of width %d for tokens of width %d", Transformers.code(v), v.Hidden(), v.Dim)
}

// Card is the model card of exported weights: what a reader needs who finds the file alone.
type Card struct {
	ViT           encoder.ViT
	Preprocessing datasets.Preprocessing // What the transformer expects.
	Size          int                    // Side of a crop in pixels.
	Measured      int                    // Side of the crops that a training has measured it on; 0 if it says nothing.
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
	return atomicfile.WriteBytes(CardPath(weightsFile), []byte(libraryOf(c, filepath.Base(weightsFile)).text("card.md")))
}

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
func readFacts(weightsFile string) (facts modelFacts, err error) {
	path := filepath.Join(filepath.Dir(weightsFile), "config.json")
	defer try.HandleF(&err, func() { err = fmt.Errorf("%s: %w", path, err) })
	content, err := readSmall(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return modelFacts{}, nil
	}
	try.E(err)
	facts = try.E1(parseFacts(content))
	facts.file = path
	return facts, nil
}

func parseFacts(content []byte) (facts modelFacts, err error) {
	if err := json.Unmarshal(content, &facts); err != nil {
		return modelFacts{}, fmt.Errorf("cannot be read: %.200w", err)
	}
	if facts.Architecture == "" && facts.ModelType == "" {
		return modelFacts{}, nil
	}
	if facts.ModelType == "timm_wrapper" { // Transformers' own class around timm's model and its config.
		facts.ModelType = ""
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
	return lo.Ternary(ok || f.ModelArgs[name] == nil, value, math.NaN())
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
