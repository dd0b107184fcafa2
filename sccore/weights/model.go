package weights

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/safetensors"
)

// ExportModel writes a whole network, the float32 variables of a store that are not below the scopes without, to a .safetensors file with PyTorch's
// layouts: the variable /decode_head/conv_seg/weight becomes the tensor decode_head.conv_seg.weight. The write is atomic.
func ExportModel(path string, store *model.Store, without []string, metadata map[string]string) error {
	named := map[string]*tensors.Tensor{}
variables:
	for variable := range store.IterVariables() {
		if variable.DType() != dtypes.Float32 {
			continue
		}
		for _, scope := range without {
			if strings.HasPrefix(variable.Path(), scope+model.ScopeSeparator) {
				continue variables
			}
		}
		value, err := variable.Value()
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		values, err := tensors.CopyFlatData[float32](value)
		if err != nil {
			return fmt.Errorf("writing %s: variable %s: %w", path, variable.Path(), err)
		}
		if err := safetensors.CheckFinite(values); err != nil {
			return fmt.Errorf("writing %s: variable %s: %w", path, variable.Path(), err)
		}
		shape := variable.Shape().Dimensions
		named[torchName(variable)] = tensors.FromFlatDataAndDimensions(transposed(values, shape, true), torchShape(shape)...)
	}
	return safetensors.Write(path, named, metadata)
}

// ImportModel sets the float32 variables of a store from the tensors of a file that [ExportModel] wrote. The variables exist already, and there must be a
// tensor of its shape for each of them and no others. Otherwise the store is unchanged, and the error names the tensor.
func ImportModel(named map[string]*tensors.Tensor, store *model.Store) error {
	used := map[string]bool{}
	values := map[*model.Variable]*tensors.Tensor{}
	for variable := range store.IterVariables() {
		if variable.DType() != dtypes.Float32 {
			continue
		}
		shape := variable.Shape().Dimensions
		name := torchName(variable)
		tensor := named[name]
		if tensor == nil {
			return fmt.Errorf("tensor %s is missing", name)
		}
		if !tensor.Shape().Equal(shapes.Make(dtypes.Float32, torchShape(shape)...)) {
			return fmt.Errorf("tensor %s is %s, the model wants %v in float32", name, tensor.Shape(), torchShape(shape))
		}
		used[name] = true
		flat, err := tensors.CopyFlatData[float32](tensor)
		if err == nil {
			err = safetensors.CheckFinite(flat)
		}
		if err != nil {
			return fmt.Errorf("tensor %s: %w", name, err)
		}
		values[variable] = tensors.FromFlatDataAndDimensions(transposed(flat, shape, false), shape...)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !used[name] {
			return fmt.Errorf("the model has no tensor %s", name)
		}
	}
	for variable, value := range values {
		if err := variable.SetValue(value); err != nil {
			return fmt.Errorf("variable %s: %w", variable.Path(), err)
		}
	}
	return nil
}

// torchName is the name of a variable in PyTorch's way.
func torchName(variable *model.Variable) string {
	return strings.ReplaceAll(strings.TrimPrefix(variable.Path(), model.ScopeSeparator), model.ScopeSeparator, ".")
}
