package experiments

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// applySet applies one "key=value" of --set to the configuration that config points to. Keys are the names in the configuration's
// JSON, with dots between levels, e.g. "knn.k=20". An unknown key and a value of the wrong type are errors that name them.
func applySet(config any, assignment string) error {
	key, value, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("--set %q is not of the form key=value", assignment)
	}
	encoded, err := json.Marshal(config)
	if err != nil {
		return err
	}
	var root map[string]any
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil {
		return err
	}
	level, path := root, strings.Split(key, ".")
	for i, name := range path {
		old, ok := level[name]
		if !ok {
			return fmt.Errorf("--set %s: no key %q; the keys here are %s", assignment, name, strings.Join(slices.Sorted(maps.Keys(level)), ", "))
		}
		nested, isMap := old.(map[string]any)
		if i < len(path)-1 {
			if !isMap {
				return fmt.Errorf("--set %s: %q is a value and has no %q", assignment, name, path[i+1])
			}
			level = nested
			continue
		}
		if isMap {
			return fmt.Errorf("--set %s: %q is a group; its keys are %s", assignment, name, strings.Join(slices.Sorted(maps.Keys(nested)), ", "))
		}
		if _, isText := old.(string); isText {
			level[name] = value
		} else if level[name] = json.RawMessage(value); !json.Valid([]byte(value)) {
			return wrongType(assignment, value, old)
		}
		changed, err := json.Marshal(root)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(changed, config); err != nil {
			return wrongType(assignment, value, old)
		}
	}
	return nil
}

func wrongType(assignment, value string, old any) error {
	want := "text"
	switch number := old.(type) {
	case bool:
		want = "true or false"
	case json.Number:
		want = "a number like " + number.String()
	}
	return fmt.Errorf("--set %s: %q is not %s", assignment, value, want)
}
