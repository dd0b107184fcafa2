package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheUserWorksOnCopies runs, edits and updates notebooks in every relevant order.
func TestTheUserWorksOnCopies(t *testing.T) {
	root, to := t.TempDir(), filepath.Join(t.TempDir(), "out", "lab")
	from := filepath.Join(root, "notebooks")
	notebook := func(source, output string) []byte {
		return []byte(`{"cells": [{"cell_type": "code", "source": ["` + source + `"], "outputs": ["` + output + `"]}]}`)
	}
	update := func() string {
		t.Helper()
		var said bytes.Buffer
		copyNotebooks(root, to, &said)
		return said.String()
	}
	holds := func(name, part string) {
		t.Helper()
		if content, err := os.ReadFile(filepath.Join(to, name)); err != nil || !strings.Contains(string(content), part) {
			t.Errorf("%s is %s, %v; want %q", name, content, err, part)
		}
	}
	for _, name := range []string{"run.ipynb", "edited.ipynb", "gone.ipynb"} {
		write(t, notebook("first", "committed"), from, name)
	}
	write(t, []byte("# Read this"), from, readme)
	update()
	holds("run.ipynb", "committed")
	holds(readme, "# Read this")

	write(t, notebook("first", "run here"), to, "run.ipynb")
	write(t, notebook("by hand", "run here"), to, "edited.ipynb")
	if said := update(); said != "" {
		t.Errorf("nothing has changed, it says %q", said)
	}
	holds("run.ipynb", "run here")
	holds("edited.ipynb", "by hand")

	for _, name := range []string{"run.ipynb", "edited.ipynb"} {
		write(t, notebook("second", "committed"), from, name)
	}
	if err := os.Remove(filepath.Join(from, "gone.ipynb")); err != nil {
		t.Fatal(err)
	}
	wantLine(t, update(), "edited.ipynb has changed in the project", "remove "+filepath.Join(to, "edited.ipynb"))
	holds("run.ipynb", "second")
	holds("edited.ipynb", "by hand")
	if _, err := os.Stat(filepath.Join(to, "gone.ipynb")); err == nil {
		t.Error("the copy of a notebook that is gone is left")
	}
	if err := os.Remove(filepath.Join(to, "edited.ipynb")); err != nil {
		t.Fatal(err)
	}
	if said := update(); said != "" {
		t.Errorf("it says %q", said)
	}
	holds("edited.ipynb", "second")
}

var markdownLink = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestLinksOfCopiesLeadSomewhere follows every link between the project's pages in the copies: JupyterLab serves nothing outside their folder.
func TestLinksOfCopiesLeadSomewhere(t *testing.T) {
	root, to := filepath.Join("..", ".."), t.TempDir()
	copyNotebooks(root, to, io.Discard)
	followed := 0
	for _, pattern := range []string{"*.ipynb", "*.md", "docs/*.md"} {
		pages, err := filepath.Glob(filepath.Join(to, filepath.FromSlash(pattern)))
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: %v, %v", pattern, pages, err)
		}
		for _, page := range pages {
			content, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, link := range markdownLink.FindAllStringSubmatch(string(content), -1) {
				target := link[1]
				if !strings.HasSuffix(target, ".md") && !strings.HasSuffix(target, ".ipynb") || strings.HasSuffix(target, "CONTRIBUTING.md") || strings.HasSuffix(target, "CHANGELOG.md") {
					continue // Pages for contributors stay in the checkout.
				}
				followed++
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), filepath.FromSlash(target))); err != nil {
					t.Errorf("%s links to %s, which is not there", page, target)
				}
			}
		}
	}
	if followed < 50 {
		t.Errorf("followed %d links only", followed)
	}
}
