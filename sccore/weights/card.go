package weights

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
)

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

func (c Card) markdown(file string) string {
	var text strings.Builder
	v := c.ViT
	fmt.Fprintf(&text, "# %s\n\nA vision transformer (%s): patches of %d pixels, width %d, %d blocks, %d heads, %s.\n",
		file, v.Name, v.PatchSize, v.Dim, v.Depth, v.NumHeads, strings.Join(parts(v), ", "))
	if v.Prototypes > 0 {
		block := "Its last block"
		if v.BlocksAfterFilter > 0 {
			block = fmt.Sprintf("Block %d", v.Depth-v.BlocksAfterFilter)
		}
		fmt.Fprintf(&text, "%s has the Object-Aware Filter with %d prototypes.\n", block, v.Prototypes)
		if v.Filter == encoder.ResidualBlock {
			text.WriteString("A residual block with as many parameters stands in its place.\n")
		}
	}
	fmt.Fprintf(&text, "\nImages: %s.", c.Preprocessing.Describe(c.Size))
	if c.Size != usualSize {
		fmt.Fprintf(&text, " The encoder was trained and measured at this size. "+
			"The tools of semcon and the code below take crops of %d px by default.", usualSize)
	}
	text.WriteString("\n")
	fmt.Fprintf(&text, "\nIn Go:\n\n```go\nvit, err := semcon.Open(%q)       // github.com/semcon/semcon\n"+
		"features, err := vit.Features(img) // Any image.Image.\n"+
		"fmt.Println(len(features.Class), features.Rows, features.Columns, len(features.Patch(0, 0)))\n```\n", file)
	text.WriteString(c.python(file))
	for _, fact := range c.Facts {
		if strings.ContainsAny(fact.Text, "\n{") {
			fmt.Fprintf(&text, "\n%s:\n\n```\n%s\n```\n", fact.Name, strings.Trim(fact.Text, "\n"))
		} else {
			fmt.Fprintf(&text, "\n%s: %s\n", fact.Name, fact.Text)
		}
	}
	return text.String()
}

// parts names the parts of a transformer that its sizes do not say.
func parts(v encoder.ViT) (all []string) {
	if v.GridSize > 0 {
		all = append(all, fmt.Sprintf("positions of a grid of %[1]d×%[1]d, resized as in %[2]s", v.GridSize, v.Positions))
	}
	if v.RoPE.Base > 0 {
		all = append(all, fmt.Sprintf("RoPE with base %g", v.RoPE.Base))
		if v.RoPE.BF16 {
			all = append(all, "its periods rounded to bfloat16")
		}
	}
	if v.Registers > 0 {
		all = append(all, fmt.Sprintf("%d registers", v.Registers))
	}
	if v.SwiGLU {
		all = append(all, "SwiGLU")
	}
	return all
}

// python says how to load the file in Python with the library that has its names.
func (c Card) python(file string) string {
	v := c.ViT
	load := fmt.Sprintf("model.load_state_dict(safetensors.torch.load_file(%q)", file)
	block := func(with, code string) string {
		return fmt.Sprintf("\nIn Python with %s:\n\n```python\n%s\n```\n", with, code)
	}
	switch c.Naming {
	case Official:
		with := fmt.Sprintf("the official code of DINO, version %d", generation(v))
		return block(with, "import safetensors.torch\n"+load+")  # model has this size, without its weights")
	case Transformers:
		class := transformersConfig(v)["architectures"].([]string)[0]
		more := map[bool]string{true: ", add_pooling_layer=False"}[class == "ViTModel"]
		return block("transformers, from this folder", "import transformers\nmodel = transformers."+class+`.from_pretrained("."`+more+").eval()")
	}
	class, modules := "VisionTransformer", "safetensors.torch, timm"
	if v.RoPE.Base > 0 {
		class = "Eva"
	}
	var arguments []string
	for _, a := range timmArguments(v) {
		arguments = append(arguments, a.python())
		if a.code {
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
	return block("timm", fmt.Sprintf("import %s\nmodel = timm.models.%s(%s, num_classes=0, dynamic_img_size=True).eval()\n%s%s",
		modules, class, strings.Join(arguments, ", "), load, end))
}
