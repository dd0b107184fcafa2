// Package layers holds the order of the project's packages: imports follow the path of the data and go one way.
package layers

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/semcon/semcon"

// layers lists the packages, and the packages below them, from the first to the last. A package may import those of earlier layers
// and those of its own.
var layers = [][]string{
	{"internal", "sccore/backend", "sccore/progress"}, // What everything may use.
	{"sccore/datasets"},
	{"sccore/views"},
	{"losses"},
	{"sccore/encoder"},
	{"sccore/optim"},
	{"sccore/weights"},
	{"sccore/train"},
	{"sccore", "sccore/methods"},
	{"sccore/evaluation"},
	{"analysis"},
	{"figures"},
	{"sccore/experiments"},
	{"cmd", "notebooks"},
}

// layerOf returns the layer of a package, the one that names the longest part of its path, and -1 where none does.
func layerOf(path string) int {
	layer, longest := -1, -1
	for i, paths := range layers {
		for _, p := range paths {
			below := strings.HasPrefix(path, p+"/") && p != "sccore" // Packages below sccore have places of their own.
			if (path == p || below) && len(p) > longest {
				layer, longest = i, len(p)
			}
		}
	}
	return layer
}

func TestImportsGoOneWay(t *testing.T) {
	list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"/...")
	list.Stderr = t.Output()
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for line := range strings.Lines(string(out)) {
		path, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		path = strings.TrimPrefix(path, module+"/")
		packages++
		layer := layerOf(path)
		if layer < 0 {
			t.Errorf("%s has no place among the layers", path)
			continue
		}
		for _, imported := range strings.Fields(imports) {
			if imported, ours := strings.CutPrefix(imported, module+"/"); ours && layerOf(imported) > layer {
				t.Errorf("%s imports %s, which comes later in the path of the data", path, imported)
			}
		}
	}
	if packages < len(layers)/2 {
		t.Errorf("go list found %d packages only", packages)
	}
}

func TestLayerOf(t *testing.T) {
	for path, want := range map[string]string{
		"cmd/semcon/internal/setup": "cmd", "sccore": "sccore", "sccore/views": "sccore/views", "internal/testbackend": "internal",
	} {
		if layerOf(path) != layerOf(want) || layerOf(path) < 0 {
			t.Errorf("%s is in layer %d, %s in %d", path, layerOf(path), want, layerOf(want))
		}
	}
	if layer := layerOf("sccore/novelty"); layer != -1 {
		t.Errorf("an unknown package is in layer %d", layer)
	}
	if layerOf("sccore/views") <= layerOf("sccore/datasets") || layerOf("sccore") <= layerOf("sccore/weights") {
		t.Error("views come after datasets, the framework after weights")
	}
}
