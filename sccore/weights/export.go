package weights

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
)

// ExportViT writes the transformer's weights, the variables under scope, to a .safetensors file under timm's names and in PyTorch's layout.
// Without a filter (v.Prototypes 0) timm loads the file strictly, whether or not the store has one. head, which may be empty, is written
// beside them under "head.". The file is whole or not there.
func ExportViT(path string, store *model.Store, scope string, v encoder.ViT, head map[string]*tensors.Tensor, metadata map[string]string) error {
	named := map[string]*tensors.Tensor{}
	for _, w := range v.Weights() {
		full := strings.TrimSuffix(scope, "/") + "/" + w.Path
		variable := store.GetVariable(full)
		if variable == nil {
			return fmt.Errorf("writing %s: no variable %s", path, full)
		}
		value, err := variable.Value()
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		values, err := tensors.CopyFlatData[float32](value)
		if err != nil {
			return fmt.Errorf("writing %s: variable %s: %w", path, full, err)
		}
		if !slices.Equal(value.Shape().Dimensions, w.Shape) {
			return fmt.Errorf("writing %s: variable %s is %s, the transformer wants %v", path, full, value.Shape(), w.Shape)
		}
		named[strings.ReplaceAll(w.Path, "/", ".")] = tensors.FromFlatDataAndDimensions(transposed(values, w.Shape, true), torchShape(w.Shape)...)
	}
	for name, value := range head {
		named["head."+name] = value
	}
	return WriteSafetensors(path, named, metadata)
}
