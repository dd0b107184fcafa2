package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzConfigFile: a file of settings becomes assignments with keys, or an error of one line.
func FuzzConfigFile(f *testing.F) {
	for _, text := range []string{"epochs: 4\nknn: {k: 20}", "second:\n  views: {locals: 0}\n", "a: [1, 2", "? [x]\n: 1", "a: &b [*b]", "- 1", "'': 4", "a: {~: 1}", "1: .nan", "\x00"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		file := filepath.Join(t.TempDir(), "settings.yaml")
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		set, err := readConfig(file)
		if err != nil {
			if text := err.Error(); text == "" || strings.Contains(text, "\n") || strings.Contains(text, "goroutine") {
				t.Errorf("%q", text)
			}
			return
		}
		for _, assignment := range set {
			if strings.Index(assignment, "=") < 1 {
				t.Errorf("%q has no key", assignment)
			}
		}
	})
}
