package safetensors

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// SaveCheckpoint writes every variable of store, including the state of optimizers, and metadata to path. The write is atomic.
func SaveCheckpoint(path string, store *model.Store, metadata map[string]string) error {
	return SaveScope(path, store.RootScope(), func(path string) string { return path }, metadata)
}

// SaveScope writes the variables of a scope under the names that name gives their paths, and metadata, to path. The write is atomic.
func SaveScope(path string, scope *model.Scope, name func(path string) string, metadata map[string]string) error {
	named := map[string]*tensors.Tensor{}
	for variable := range scope.IterVariables() {
		value, err := variable.Value()
		if err != nil {
			return fmt.Errorf("writing %s: variable %s: %w", path, variable.Path(), err)
		}
		named[name(variable.Path())] = value
	}
	return Write(path, named, metadata)
}

// LoadScope sets the variables of a scope from a file of [SaveScope], which may hold more. Unless the file has all
// of them, with the same shapes, the store is unchanged, and the error names the file and the variable.
func LoadScope(path string, scope *model.Scope, name func(path string) string) (err error) {
	defer try.Handle(&err)
	named, _ := try.E2(Read(path))
	return fill(path, scope, name, named)
}

func fill(path string, scope *model.Scope, name func(path string) string, named map[string]*tensors.Tensor) error {
	for variable := range scope.IterVariables() {
		value, ok := named[name(variable.Path())]
		if !ok {
			return fmt.Errorf("%s: variable %s is missing", path, name(variable.Path()))
		}
		if !value.Shape().Equal(variable.Shape()) {
			return fmt.Errorf("%s: variable %s has shape %s, the model wants %s", path, variable.Path(), value.Shape(), variable.Shape())
		}
	}
	for variable := range scope.IterVariables() {
		if err := variable.SetValue(named[name(variable.Path())]); err != nil {
			return fmt.Errorf("%s: variable %s: %w", path, variable.Path(), err)
		}
	}
	return nil
}

// LoadCheckpoint sets every variable of store from the file at path and returns the file's metadata. The file must hold exactly the variables
// of the store, with the same shapes. Otherwise the store is unchanged and the error names the file and the variable.
func LoadCheckpoint(path string, store *model.Store) (metadata map[string]string, err error) {
	defer try.Handle(&err)
	named, metadata := try.E2(Read(path))
	unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(named)), func(name string) bool { return store.GetVariable(name) != nil })
	if len(unknown) > 0 {
		return nil, fmt.Errorf("%s: the model does not have these variables: %.200q", path, strings.Join(unknown, ", "))
	}
	return metadata, fill(path, store.RootScope(), func(path string) string { return path }, named)
}

// NotFinite is the error of a value that is NaN or infinite. Diverged training produces such values.
type NotFinite struct {
	Entry int // Counted from 0.
	Value float32
}

// Error says which value it is: "entry 15 is NaN".
func (e NotFinite) Error() string { return fmt.Sprintf("entry %d is %v", e.Entry, e.Value) }

// CheckFinite returns a [NotFinite] for the first value that is NaN or infinite.
func CheckFinite(values []float32) error {
	for i, x := range values {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return NotFinite{i, x}
		}
	}
	return nil
}
