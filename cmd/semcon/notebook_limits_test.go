package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestCommittedNotebooks: each is small enough to commit and to open, its cells are short enough to read at a glance, its outputs name no path of the
// machine that executed it, and the texts of one stream are one output, however the kernel has cut them.
func TestCommittedNotebooks(t *testing.T) {
	const largest, lines, characters = 600_000, 15, 100
	absolute := regexp.MustCompile(`(^|[^A-Za-z0-9._/+=-])/(home|root|tmp|work|Users)/[^\s"'<)]*`)
	files, err := filepath.Glob(filepath.FromSlash("../../notebooks/*.ipynb"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d notebooks, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(content) >= largest {
				t.Errorf("%d bytes, want less than %d", len(content), largest)
			}
			var notebook struct {
				Cells []struct {
					Type    string   `json:"cell_type"`
					Source  []string `json:"source"`
					Outputs []any    `json:"outputs"`
				} `json:"cells"`
			}
			if err := json.Unmarshal(content, &notebook); err != nil {
				t.Fatal(err)
			}
			for i, cell := range notebook.Cells {
				if cell.Type != "code" {
					continue
				}
				if len(cell.Source) > lines {
					t.Errorf("cell %d has %d lines, want at most %d", i, len(cell.Source), lines)
				}
				for _, line := range cell.Source {
					if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > characters {
						t.Errorf("cell %d has a line of over %d characters: %s", i, characters, line)
					}
				}
				stream := any(nil) // The name of the last output's, nil for other outputs.
				for _, output := range cell.Outputs {
					last := stream
					if stream = output.(map[string]any)["name"]; stream != nil && stream == last {
						t.Errorf("cell %d has texts of %s that are cut", i, stream)
					}
					for _, text := range texts(output) {
						if path := absolute.FindString(text); path != "" {
							t.Errorf("an output of cell %d names %s", i, path)
						}
					}
				}
			}
		})
	}
}

// texts returns the strings in a JSON value.
func texts(value any) (all []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, part := range v {
			all = append(all, texts(part)...)
		}
	case map[string]any:
		for _, part := range v {
			all = append(all, texts(part)...)
		}
	}
	return all
}
