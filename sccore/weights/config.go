package weights

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	File                                                                                 string
	Rotated, Later, Biased, OddMLP                                                       bool
	Generation, Hidden, ImageSize, UsualImage, FilterBlock, UsualSize, Resized, MLPRatio int
	Epsilon, TimmRatio, CropPct, RescaleFactor                                           float64
	Kind, Class, TimmClass, TimmSize, Unfit                                              string
	Images                                                                               datasets.Preprocessing
}

func libraryOf(c Card, file string) library {
	v, p := c.ViT, c.Preprocessing
	l := library{
		Card: c, File: file, Images: p, Rotated: v.RoPE.Base > 0, Later: generation(v) > 1, Biased: v.Bias != encoder.NoBias, OddMLP: hidden(v) != 4*v.Dim,
		Generation: generation(v), Hidden: hidden(v), ImageSize: v.PatchSize * v.GridSize, UsualImage: 14 * v.PatchSize,
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
	return atomicfile.WriteBytes(CardPath(weightsFile), []byte(libraryOf(c, filepath.Base(weightsFile)).text("card.md")))
}
