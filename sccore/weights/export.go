package weights

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
)

// ExportViT writes the transformer's weights, the variables under scope, to a .safetensors file with timm's names and PyTorch's layout. If
// v.Prototypes is 0, the filter is left out and timm loads the file strictly. The tensors of head, which may be empty, get the prefix
// "head.". The write is atomic.
func ExportViT(path string, store *model.Store, scope string, v encoder.ViT, head map[string]*tensors.Tensor, metadata map[string]string) error {
	named := map[string]*tensors.Tensor{}
	for _, w := range v.Weights() {
		full := strings.TrimSuffix(scope, "/") + "/" + w.Path
		variable := store.GetVariable(full)
		if variable == nil {
			return fmt.Errorf("writing %s: variable %s is missing", path, full)
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
			return fmt.Errorf("writing %s: variable %s has shape %s, the transformer wants %v", path, full, value.Shape(), w.Shape)
		}
		named[strings.ReplaceAll(w.Path, "/", ".")] = tensors.FromFlatDataAndDimensions(transposed(values, w.Shape, true), torchShape(w.Shape)...)
	}
	for name, value := range head {
		named["head."+name] = value
	}
	return WriteSafetensors(path, named, metadata)
}
