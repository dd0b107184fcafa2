package weights

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/safetensors"
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
	return safetensors.Write(path, tensorsOf, described(metadata, naming, v))
}

// described adds what the names and shapes of tensors do not say to the metadata of a file. Those of the usual transformers under timm's
// names say all, and their files stay the same to the byte: records name encoders by their content.
func described(metadata map[string]string, naming Naming, v encoder.ViT) map[string]string {
	named := v.Named()
	if naming == Timm && slices.Contains(encoder.ViTNames(), named.Name) && v.Positions == encoder.DINOPositions {
		return metadata
	}
	all := map[string]string{architectureKey: named.Name}
	if v.GridSize > 0 && v.Positions != "" {
		all[positionsKey] = string(v.Positions)
	}
	maps.Copy(all, metadata)
	return all
}
