// Package imports checks the order of the project's packages: imports follow the flow of the data and go one way.
package imports

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/semcon/semcon"

// order lists the packages from first to last. An entry stands for a package and for the packages below it that have no entry of their own. An
// entry that ends in /* stands only for the packages below it. A package may import packages of its own and of earlier lines.
var order = [][]string{
	{"internal", "sccore/backend", "sccore/progress", "sccore/settings", "sccore/rle", "sccore/safetensors", "sccore/tensorboard"}, // For all packages.
	{"sccore/datasets"},
	{"sccore/datasets/*"},
	{"sccore/views"},
	{"losses"},
	{"sccore/layers"},
	{"sccore/encoder"},
	{"sccore/heads"},
	{"sccore/optim", "sccore/weights"},
	{"sccore/metrics", "sccore/knn"},
	{"sccore/train"},
	{"sccore", "sccore/methods", "sccore/selfdistillation"},
	{"analysis"},
	{"sccore/finetune", "sccore/detection", "sccore/evaluation"},
	{"figures"},
	{"sccore/study"},
	{"sccore/recipe"},
	{"sccore/study/encoders"},
	{"sccore/recipe/maintable"},
	{"sccore/ownimages"},
	{"sccore/experiments/*"},
	{"sccore/experiments"},
	{"sccore/report"},
	{module}, // The package at the root.
	{"internal/steps"},
	{"cmd", "notebooks", "internal/aot", "internal/docs"},
}

// placeOf returns the line of the entry that matches the longest part of a package's path, or -1 if none does.
func placeOf(path string) int {
	place, longest := -1, -1
	for i, entries := range order {
		for _, entry := range entries {
			entry, belowOnly := strings.CutSuffix(entry, "/*")
			below := strings.HasPrefix(path, entry+"/") && entry != "sccore" // Packages below sccore have places of their own.
			if (below || path == entry && !belowOnly) && (len(entry) > longest || len(entry) == longest && belowOnly) {
				place, longest = i, len(entry)
			}
		}
	}
	return place
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
		place := placeOf(path)
		if place < 0 {
			t.Errorf("%s is missing in the order", path)
			continue
		}
		for _, imported := range strings.Fields(imports) {
			const leaves = module + "/sccore/experiments/"
			other, ok := strings.CutPrefix(imported, leaves)
			if ok && strings.HasPrefix(module+"/"+path, leaves) {
				t.Errorf("%s imports the experiment %s: experiments are leaves", path, other)
			}
			if imported, ours := strings.CutPrefix(imported, module+"/"); ours && placeOf(imported) > place {
				t.Errorf("%s imports %s, which comes later in the order", path, imported)
			}
		}
	}
	if packages < len(order)/2 {
		t.Errorf("go list found only %d packages", packages)
	}
}

// TestTrainingIsSmall counts the lines outside tests of the packages of the project that the trainer stands on.
func TestTrainingIsSmall(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", `{{with .Module}}{{if .Main}}{{range $.GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`, module+"/sccore/train")
	list.Stderr = t.Output()
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for path := range strings.FieldsSeq(string(out)) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(content), "\n")
	}
	if lines == 0 || lines > 8000 {
		t.Errorf("sccore/train stands on %d lines, want at most 8000", lines)
	}
}

func TestPlaceOf(t *testing.T) {
	for path, want := range map[string]string{
		"cmd/semcon": "cmd", "sccore": "sccore", "sccore/views": "sccore/views", "internal/testbackend": "internal",
		"losses/internal/pairsum": "losses", "sccore/experiments/video": "sccore/experiments/ablation",
	} {
		if placeOf(path) != placeOf(want) || placeOf(path) < 0 {
			t.Errorf("%s is in line %d, %s in %d", path, placeOf(path), want, placeOf(want))
		}
	}
	if place := placeOf("sccore/novelty"); place != -1 {
		t.Errorf("an unknown package is in line %d", place)
	}
	for _, pair := range [][2]string{
		{"sccore/datasets", "sccore/views"}, {"sccore/weights", "sccore"}, {"sccore/datasets", "sccore/datasets/synthetic"},
		{"sccore/datasets/synthetic", "sccore/views"}, {"sccore/experiments/video", "sccore/experiments"},
	} {
		if placeOf(pair[0]) >= placeOf(pair[1]) {
			t.Errorf("%s does not come before %s", pair[0], pair[1])
		}
	}
}
