package train

import (
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/backend"
)

// Initialize sets every variable of a store to its initial value, drawn from the seed. The pure-Go engine draws, whatever the device, so that a seed
// gives the same values on every backend. Variables below the scopes named zeros are set to 0 without a draw: they are copies of others, and graphs
// built on them later may give them initializers of their own.
func Initialize(store *model.Store, seed uint64, zeros ...string) error {
	for variable := range store.IterVariables() {
		if err := variable.Reset(); err != nil {
			return err
		}
		for _, scope := range zeros {
			if strings.HasPrefix(variable.Path(), scope+model.ScopeSeparator) {
				if err := variable.SetValue(tensors.FromShape(variable.Shape())); err != nil {
					return err
				}
			}
		}
	}
	if err := store.SetRNGStateFromSeed(int64(seed)); err != nil {
		return err
	}
	host, err := backend.OpenConfig(backend.Go)
	if err != nil {
		return err
	}
	defer host.Finalize()
	if caught := exceptions.TryCatch[error](func() { err = store.InitializeVariables(host, nil) }); caught != nil {
		return caught
	}
	if err != nil {
		return err
	}
	for variable := range store.IterVariables() {
		value, err := variable.Value()
		if err != nil {
			return err
		}
		if err := value.ToLocal(); err != nil {
			return err
		}
	}
	return nil
}

// CopyScope copies the variables below one scope to those below another.
func CopyScope(store *model.Store, from, to string) error {
	for variable := range store.Scope(to).IterVariables() {
		value, err := store.GetVariable(from + variable.Path()[len(to):]).Value()
		if err != nil {
			return err
		}
		if value, err = value.LocalClone(); err != nil {
			return err
		}
		if err := variable.SetValue(value); err != nil {
			return err
		}
	}
	return nil
}
