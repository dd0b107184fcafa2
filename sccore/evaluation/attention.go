package evaluation

import (
	"fmt"
	"slices"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/safetensors"
)

// Attention are attention maps of one image: of [CLS] in the last block, and of patches in the Object-Aware Filter. Each is [Rows·Columns], row by row.
type Attention struct {
	Rows, Columns int
	// Class has the attention of [CLS] to each patch, by head. That to [CLS] itself and to registers is left out, so that a map sums to less than 1.
	Class [][]float64
	// Filter has the attention of each patch to a prototype of the Object-Aware Filter, by prototype and head; nil without a filter. At a patch, the
	// maps of a head sum to 1 over the prototypes.
	Filter [][][]float64
}

// Attention computes the maps of an image, whose height and width are whole numbers of patches. A graph is compiled once per size. Maps that are not
// finite are an error that names the image.
func (f *FeatureExtractor) Attention(im Image) (a Attention, err error) {
	patch, prefix := f.ViT.PatchSize, 1+f.ViT.Registers
	a.Rows, a.Columns = im.Height/patch, im.Width/patch
	if a.Rows < 1 || a.Columns < 1 || im.Height%patch != 0 || im.Width%patch != 0 {
		return a, fmt.Errorf("image %s: %d×%d pixels are not a whole number of patches of %d", im.Name, im.Height, im.Width, patch)
	}
	out, err := f.call("attention", tensors.FromFlatDataAndDimensions(im.Pixels, 1, im.Height, im.Width, 3), func(root *model.Scope, images *Node) []*Node {
		tokens := f.ViT.Tokens(root.Store().Scope(f.scope), images)
		of := SliceAxis(tokens.Attention[f.ViT.Depth-1], 2, AxisElem(0)) // The queries of [CLS].
		out := []*Node{SliceAxis(of, 3, AxisRange(prefix))}
		if tokens.FilterAttention != nil {
			out = append(out, TransposeAllAxes(tokens.FilterAttention, 0, 4, 1, 2, 3)) // [1, Prototypes, NumHeads, rows, columns]
		}
		return out
	})
	if err != nil {
		return a, fmt.Errorf("image %s: %w", im.Name, err)
	}
	var maps [2][][]float64
	for i, values := range out {
		if err := safetensors.CheckFinite(values); err != nil {
			return a, fmt.Errorf("image %s: its attention is not finite: %w", im.Name, err)
		}
		for one := range slices.Chunk(values, a.Rows*a.Columns) {
			maps[i] = append(maps[i], float64s(one))
		}
	}
	a.Class = maps[0]
	for begin := 0; begin < len(maps[1]); begin += f.ViT.NumHeads {
		a.Filter = append(a.Filter, maps[1][begin:begin+f.ViT.NumHeads])
	}
	return a, nil
}
