package weights

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
)

// ExportViT writes the transformer's weights, the variables under scope, to a .safetensors file with timm's names and PyTorch's layout, for [ReadViT].
// timm loads it strictly if [Naming.Fits] allows it; an Object-Aware Filter keeps its own names. The tensors of head, which may be empty, get the prefix
// "head.". The metadata also gets the architecture and the resizing of positions, unless they are one of [encoder.ViTNames] and DINO's. The write is atomic.
func ExportViT(path string, store *model.Store, scope string, v encoder.ViT, head map[string]*tensors.Tensor, metadata map[string]string) error {
	return ExportAs(path, Timm, store, scope, v, head, metadata)
}

// ExportAs is [ExportViT] with other names than timm's, under which it writes only what [Naming.Fits] allows.
func ExportAs(path string, naming Naming, store *model.Store, scope string, v encoder.ViT, head map[string]*tensors.Tensor, metadata map[string]string) error {
	if err := naming.Check(); err != nil {
		return err
	}
	if err := naming.Fits(v); err != nil && naming != Timm {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	all := named{}
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
		all[strings.ReplaceAll(w.Path, "/", ".")] = floats{torchShape(w.Shape), transposed(values, w.Shape, true)}
	}
	switch naming {
	case Official:
		all = all.official(v)
	case Timm:
		all = all.timm(v)
	case Transformers:
		all = all.transformers(v)
	}
	tensorsOf := map[string]*tensors.Tensor{}
	for name, a := range all {
		tensorsOf[name] = tensors.FromFlatDataAndDimensions(a.values, a.shape...)
	}
	for name, value := range head {
		tensorsOf["head."+name] = value
	}
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	// What is read without them stays the same file to the byte: records name encoders by their content.
	if name := v.Named().Name; !slices.Contains(encoder.ViTNames(), name) || v.Positions != encoder.DINOPositions {
		metadata[architectureKey], metadata[positionsKey] = name, string(v.Positions)
	}
	return WriteSafetensors(path, tensorsOf, metadata)
}
