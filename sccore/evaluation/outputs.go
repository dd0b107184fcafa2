package evaluation

import (
	"fmt"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
)

// Outputs says which features an extractor returns beside [CLS].
type Outputs struct {
	Patches bool
	// Blocks are the blocks after which features are taken, counted from 1; the last one if there are none. The final normalisation is applied to each, as in
	// get_intermediate_layers of DINO and DINOv2.
	Blocks []int
	// Resolution is the number of rows or columns, whichever are fewer, to which maps of patch features are resized, bilinearly and with the aspect kept; 0
	// for those of the patches.
	Resolution int
	// Keys takes the keys of a block's attention instead of patch tokens, see [encoder.Tokens].
	Keys bool `json:",omitzero"`
}

// Check returns an error that names what a transformer does not have.
func (o Outputs) Check(v encoder.ViT) error {
	for _, block := range o.Blocks {
		if block < 1 || block > v.Depth {
			return fmt.Errorf("%s has no block %d, only 1 to %d", v.Name, block, v.Depth)
		}
	}
	if o.Resolution < 0 || o.Resolution > 1<<13 {
		return fmt.Errorf("resolution %d is not between 0 and %d", o.Resolution, 1<<13)
	}
	return nil
}

// mapSize is the size of maps of that many rows and columns of patches.
func (o Outputs) mapSize(rows, columns int) (int, int) {
	if o.Resolution == 0 {
		return rows, columns
	}
	short := min(rows, columns)
	resized := func(length int) int { return (length*o.Resolution + short/2) / short }
	return resized(rows), resized(columns)
}

// exec returns the compiled encoder with these outputs: [CLS] and, if asked for, maps, block by block.
func (f *FeatureExtractor) exec(o Outputs) (*model.Exec, error) {
	key := fmt.Sprint(o)
	if f.execs[key] == nil {
		exec, err := model.NewExec(f.backend, f.store, func(root *model.Scope, images *Node) (out []*Node) {
			blocks := o.Blocks
			if len(blocks) == 0 {
				blocks = []int{f.ViT.Depth}
			}
			for _, block := range blocks {
				// A transformer of fewer blocks. Backends compute once what several of them share.
				v := f.ViT
				v.Depth = block
				if v.BlocksAfterFilter -= f.ViT.Depth - block; v.BlocksAfterFilter < 0 {
					v.Prototypes, v.BlocksAfterFilter = 0, 0 // The filter is in a later block.
				}
				tokens := v.Tokens(root.Store().Scope(f.scope), images)
				if out = append(out, tokens.Class); !o.Patches {
					continue
				}
				maps := tokens.Patches
				if o.Keys {
					keys := tokens.Keys[block-1]
					maps = Reshape(SliceAxis(keys, 1, AxisRange(1+v.Registers)), maps.Shape().Dimensions...)
				}
				if rows, columns := o.mapSize(maps.Shape().Dim(1), maps.Shape().Dim(2)); !slices.Equal(maps.Shape().Dimensions[1:3], []int{rows, columns}) {
					maps = layers.ResizeBilinear(maps, rows, columns)
				}
				out = append(out, maps)
			}
			return out
		})
		if err != nil {
			return nil, err
		}
		f.execs[key] = exec
	}
	return f.execs[key], nil
}
