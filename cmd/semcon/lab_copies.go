package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/internal/atomicfile"
)

const readme = "README.md"

// copiesFile lies beside the copies and records the state of the original that each was copied from.
const copiesFile = ".copies.json"

// copyNotebooks updates the copies of a folder's notebooks and returns their folder. Users run and edit the copies, and the checkout stays
// unchanged. If an original has changed, it replaces its copy and the outputs in it, unless the user has edited the copy. copyNotebooks prints
// each edited copy that it keeps to w.
func copyNotebooks(from, to string, w io.Writer) (string, error) {
	notebooks, err := filepath.Glob(filepath.Join(from, "*.ipynb"))
	if err != nil {
		return "", err
	}
	names := []string{readme}
	for _, file := range notebooks {
		names = append(names, filepath.Base(file))
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return "", err
	}
	copied, err := readCopies(filepath.Join(to, copiesFile))
	if err != nil {
		return "", err
	}
	for name, state := range copied {
		if slices.Contains(names, name) {
			continue
		}
		delete(copied, name) // Its original is gone.
		if copy := filepath.Join(to, name); stateOf(copy) == state {
			if err := os.Remove(copy); err != nil {
				return "", err
			}
		}
	}
	for _, name := range names {
		copy := filepath.Join(to, name)
		content, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", err
		}
		content = relinked(content, linksOfNotebooks)
		state, present := stateIn(name, content), stateOf(copy)
		switch {
		case present != "" && state == copied[name]:
			continue
		case present == state: // Already the same.
			copied[name] = state
			continue
		case present != "" && present != copied[name]:
			fmt.Fprintf(w, "%s has changed in the project, but you have edited your copy, which is kept; remove %s to get the new version\n", name, copy)
			continue
		}
		if err := atomicfile.WriteBytes(copy, content); err != nil {
			return "", err
		}
		copied[name] = state
	}
	text, err := json.MarshalIndent(copied, "", "  ")
	if err != nil {
		return "", err
	}
	return to, atomicfile.WriteBytes(filepath.Join(to, copiesFile), text)
}

// projectPage is the copy of the project's README among the copies of its docs.
const projectPage = "project.md"

// Links lead elsewhere from the copies: JupyterLab opens nothing outside the folder that it serves, so the pages that notebooks link to lie in its docs/.
var (
	linksOfNotebooks = strings.NewReplacer("](../docs/", "](docs/", "](../"+readme, "](docs/"+projectPage)
	linksOfDocs      = strings.NewReplacer("](../notebooks/", "](../", "](../"+readme, "]("+projectPage)
	linksOfProject   = strings.NewReplacer("](docs/", "](", "](notebooks/", "](../")
)

func relinked(content []byte, links *strings.Replacer) []byte {
	return []byte(links.Replace(string(content)))
}

// copyPages copies the project's pages, its README and docs/, to the folder docs of the copies.
func copyPages(root, to string) error {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*"))
	if err != nil {
		return err
	}
	to = filepath.Join(to, "docs")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, page := range append(pages, filepath.Join(root, readme)) {
		content, err := os.ReadFile(page)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		name := filepath.Base(page)
		switch {
		case filepath.Dir(page) == filepath.Clean(root):
			name, content = projectPage, relinked(content, linksOfProject)
		case filepath.Ext(page) == ".md":
			content = relinked(content, linksOfDocs)
		}
		if err := atomicfile.WriteBytes(filepath.Join(to, name), content); err != nil {
			return err
		}
	}
	return nil
}

func readCopies(path string) (map[string]string, error) {
	copied := map[string]string{}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return copied, nil
	} else if err == nil {
		err = json.Unmarshal(content, &copied)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return copied, nil
}

// stateOf returns a hash of a file, and for a notebook a hash of its cells without outputs. It is empty if the file does not exist.
func stateOf(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return stateIn(path, content)
}

// stateIn is the state of a file with some content.
func stateIn(path string, content []byte) string {
	var notebook struct {
		Cells []struct {
			Kind   string          `json:"cell_type"`
			Source json.RawMessage `json:"source"`
		}
	}
	if strings.HasSuffix(path, ".ipynb") && json.Unmarshal(content, &notebook) == nil {
		content = nil
		for _, cell := range notebook.Cells {
			content = fmt.Appendf(content, "%s %q\n", cell.Kind, joinSource(cell.Source))
		}
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// joinSource reads the text of a cell, which is a string or a list of lines.
func joinSource(source json.RawMessage) string {
	var lines []string
	if json.Unmarshal(source, &lines) == nil {
		return strings.Join(lines, "")
	}
	var text string
	if json.Unmarshal(source, &text) != nil {
		return string(source)
	}
	return text
}
