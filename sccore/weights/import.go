package weights

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/ml/model"
)

// Complete returns an error that names the file if it lacks weights of the filter.
func (im *Import) Complete() error {
	if len(im.Missing) > 0 {
		return fmt.Errorf("%s: weights of the filter are missing, first %s", im.File, im.Missing[0])
	}
	return nil
}

// Store returns a store with the transformer at its root.
func (im *Import) Store() (*model.Store, error) {
	store := model.NewStore()
	if err := im.Apply(store, "/"); err != nil {
		store.Finalize()
		return nil, fmt.Errorf("%s: %w", im.File, err)
	}
	return store, nil
}

// Apply sets the transformer's variables in the store, under scope ("/teacher", or "/" for the store's root), and creates them if needed.
// Weights that the file does not have are left alone. If a variable has another shape, Apply returns an error and changes nothing.
func (im *Import) Apply(store *model.Store, scope string) error {
	at := func(path string) string { return strings.TrimSuffix(scope, "/") + "/" + path }
	paths := slices.Sorted(maps.Keys(im.values))
	for _, path := range paths {
		if v := store.GetVariable(at(path)); v != nil && !v.Shape().Equal(im.values[path].Shape()) {
			return fmt.Errorf("variable %s has shape %s, the weights have %s", at(path), v.Shape(), im.values[path].Shape())
		}
	}
	for _, path := range paths {
		value, err := im.values[path].LocalClone()
		if err != nil {
			return err
		}
		if v := store.GetVariable(at(path)); v != nil {
			err = v.SetValue(value)
		} else {
			_, err = store.CreateVariable(at(path), value)
		}
		if err != nil {
			return fmt.Errorf("variable %s: %w", at(path), err)
		}
	}
	return nil
}

// Release frees the weights that the file held, once [Import.Apply] has put them in a store: large files would be in memory three times. What the
// transformer is stays.
func (im *Import) Release() {
	for _, value := range im.values {
		value.FinalizeAll()
	}
	im.values = nil
}

// String returns a report on the keys, with one line per kind.
func (im *Import) String() string {
	var text strings.Builder
	keys := "all keys"
	if im.Prefix != "" {
		keys = "keys " + im.Prefix + "*"
	}
	fmt.Fprintf(&text, "%s from %s\n", im.ViT.Name, keys)
	for _, kind := range []struct {
		name string
		keys []string
	}{{"matched", im.Matched}, {"reshaped", im.Reshaped}, {"interpolated", im.Interpolated}, {"missing", im.Missing}, {"unused", im.Unused},
		{"ignored", im.Ignored}} {
		fmt.Fprintf(&text, "%-13s %4d", kind.name, len(kind.keys))
		if shown := kind.keys[:min(len(kind.keys), 4)]; kind.name != "matched" && len(shown) > 0 {
			fmt.Fprintf(&text, "  %s", strings.Join(shown, ", "))
			if len(kind.keys) > len(shown) {
				text.WriteString(", …")
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}
