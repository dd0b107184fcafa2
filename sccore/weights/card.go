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
	Head          bool                   // The file also holds a projection head.
	Facts         []Fact                 // Where the weights come from: settings, data, records.
}

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
	fmt.Fprintf(&text, "# %s\n\nA vision transformer (%s): patches of %d pixels, width %d, %d blocks, %d heads, positions of a grid of %d×%d, resized as in %s.\n",
		file, v.Name, v.PatchSize, v.Dim, v.Depth, v.NumHeads, v.GridSize, v.GridSize, v.Positions)
	if v.Prototypes > 0 {
		fmt.Fprintf(&text, "Its last block has the Object-Aware Filter with %d prototypes.\n", v.Prototypes)
	}
	fmt.Fprintf(&text, "\nImages: %s.\n", c.Preprocessing.Describe(c.Size))
	fmt.Fprintf(&text, "\nIn Go:\n\n```go\nvit, err := semcon.Open(%q)       // github.com/semcon/semcon\nfeatures, err := vit.Features(img) // Any image.Image.\n"+
		"fmt.Println(len(features.Class), features.Rows, features.Columns, len(features.Patch(0, 0)))\n```\n", file)
	strict, after := "", ""
	switch {
	case v.Prototypes > 0:
		strict, after = ", strict=False", "  # timm has no filter and leaves it out: other features"
	case c.Head:
		strict, after = ", strict=False", "  # without the projection head"
	}
	fmt.Fprintf(&text, "\nIn Python with timm:\n\n```python\nimport safetensors.torch, timm\n"+
		"model = timm.models.VisionTransformer(img_size=%d, patch_size=%d, embed_dim=%d, depth=%d, num_heads=%d, num_classes=0, dynamic_img_size=True).eval()\n"+
		"model.load_state_dict(safetensors.torch.load_file(%q)%s)%s\n```\n",
		v.PatchSize*v.GridSize, v.PatchSize, v.Dim, v.Depth, v.NumHeads, file, strict, after)
	for _, fact := range c.Facts {
		if strings.ContainsAny(fact.Text, "\n{") {
			fmt.Fprintf(&text, "\n%s:\n\n```\n%s\n```\n", fact.Name, strings.Trim(fact.Text, "\n"))
		} else {
			fmt.Fprintf(&text, "\n%s: %s\n", fact.Name, fact.Text)
		}
	}
	return text.String()
}
