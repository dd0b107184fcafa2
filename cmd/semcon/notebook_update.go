package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/semcon/semcon/internal/atomicfile"
)

// updateNotebook replaces a notebook with its executed copy. It removes what would differ on another machine or in the next run: execution
// times, versions, and the path of the checkout.
func updateNotebook(notebook, executed, root string) error {
	content, err := os.ReadFile(executed)
	if err != nil {
		return err
	}
	clean, err := cleanNotebook(content, root)
	if err != nil {
		return fmt.Errorf("%s: %w", executed, err)
	}
	return atomicfile.WriteBytes(notebook, clean)
}

func cleanNotebook(content []byte, root string) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var notebook map[string]any
	if err := decoder.Decode(&notebook); err != nil {
		return nil, err
	}
	cells, ok := notebook["cells"].([]any)
	if !ok {
		return nil, fmt.Errorf("it has no list of cells")
	}
	for _, cell := range cells {
		if cell, ok := cell.(map[string]any); ok {
			if metadata, ok := cell["metadata"].(map[string]any); ok {
				delete(metadata, "execution")
			}
			cell["outputs"] = withoutPath(cell["outputs"], root)
			smallPictures(cell["outputs"])
			if cell["outputs"] == nil {
				delete(cell, "outputs") // Only code cells have outputs.
			}
		}
	}
	notebook["metadata"] = map[string]any{
		"kernelspec":    map[string]any{"name": "gonb", "display_name": "Go (gonb)", "language": "go"},
		"language_info": map[string]any{"name": "go", "mimetype": "text/x-go", "file_extension": ".go"},
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ") // Like Jupyter, with sorted keys.
	err := encoder.Encode(notebook)
	return out.Bytes(), err
}

// withoutPath makes every path below the checkout in a JSON value relative to it.
func withoutPath(value any, root string) any {
	switch v := value.(type) {
	case string:
		return strings.ReplaceAll(strings.ReplaceAll(v, root+"/", ""), root, ".")
	case []any:
		for i := range v {
			v[i] = withoutPath(v[i], root)
		}
	case map[string]any:
		for key := range v {
			v[key] = withoutPath(v[key], root)
		}
	}
	return value
}
