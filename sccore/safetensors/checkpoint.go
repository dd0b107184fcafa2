package safetensors

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// SaveCheckpoint writes every variable of store, including the state of optimizers, and metadata to path. The write is atomic.
func SaveCheckpoint(path string, store *model.Store, metadata map[string]string) error {
	named := map[string]*tensors.Tensor{}
	for variable := range store.IterVariables() {
		value, err := variable.Value()
		if err != nil {
			return fmt.Errorf("writing %s: variable %s: %w", path, variable.Path(), err)
		}
		named[variable.Path()] = value
	}
	return Write(path, named, metadata)
}

// LoadCheckpoint sets every variable of store from the file at path and returns the file's metadata. The file must hold exactly the variables
// of the store, with the same shapes. Otherwise the store is unchanged and the error names the file and the variable.
func LoadCheckpoint(path string, store *model.Store) (metadata map[string]string, err error) {
	named, metadata, err := Read(path)
	if err != nil {
		return nil, err
	}
	for variable := range store.IterVariables() {
		value, ok := named[variable.Path()]
		if !ok {
			return nil, fmt.Errorf("%s: variable %s is missing", path, variable.Path())
		}
		if !value.Shape().Equal(variable.Shape()) {
			return nil, fmt.Errorf("%s: variable %s has shape %s, the model wants %s", path, variable.Path(), value.Shape(), variable.Shape())
		}
	}
	if len(named) != store.NumVariables() {
		for variable := range store.IterVariables() {
			delete(named, variable.Path())
		}
		return nil, fmt.Errorf("%s: the model does not have these variables: %.200q", path, strings.Join(slices.Sorted(maps.Keys(named)), ", "))
	}
	for variable := range store.IterVariables() {
		if err := variable.SetValue(named[variable.Path()]); err != nil {
			return nil, fmt.Errorf("%s: variable %s: %w", path, variable.Path(), err)
		}
	}
	return metadata, nil
}

// CheckFinite returns an error that names the first value that is NaN or infinite, "entry 15 is NaN". Diverged training produces such values.
func CheckFinite(values []float32) error {
	for i, x := range values {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("entry %d is %v", i, x)
		}
	}
	return nil
}
