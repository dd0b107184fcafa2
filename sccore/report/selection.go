package report

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/study"
)

// Selection is the records of a run: one or more cells of an experiment, with all their seeds.
type Selection struct {
	Name    string // As it was given.
	Folder  string // The experiment's folder.
	Records []study.Record
}

// Select finds the records of a run in a profile. A run is an experiment below the folder out, or the path of an experiment's folder, and behind it a pattern of cells as
// --only takes it: "ablation/line2", "other/out/pretrain". "@" and the first digits of a configuration's hash at the end choose among runs of a cell with several settings.
func Select(out, name string, profile study.Profile) (Selection, error) {
	located, hash, _ := strings.Cut(name, "@")
	folder, pattern, err := locate(out, located)
	if err != nil {
		return Selection{}, err
	}
	s := Selection{Name: name, Folder: folder}
	records, err := study.Records(folder)
	if err != nil {
		return s, err
	}
	var cells []string
	hashes := map[string][]string{} // By cell.
	for _, r := range records {
		if r.Profile != profile {
			continue
		}
		add(&cells, r.Cell)
		matches, err := matchesCell(pattern, r.Cell)
		if err != nil {
			return s, fmt.Errorf("run %s: %w", name, err)
		}
		if !matches || !strings.HasPrefix(r.ConfigHash, hash) {
			continue
		}
		if all := hashes[r.Cell]; !slices.Contains(all, r.ConfigHash) {
			hashes[r.Cell] = append(all, r.ConfigHash)
		}
		s.Records = append(s.Records, r)
	}
	for _, cell := range cells {
		if len(hashes[cell]) > 1 {
			return s, fmt.Errorf("run %s: %s was run with %d configurations; choose one by @%s", name, cell, len(hashes[cell]), strings.Join(hashes[cell], " or @"))
		}
	}
	switch {
	case len(cells) == 0:
		return s, fmt.Errorf("run %s: no records of profile %s in %s", name, profile, folder)
	case len(s.Records) == 0:
		return s, fmt.Errorf("run %s: no recorded cell matches; there are %s", name, few(cells))
	}
	return s, nil
}

// locate returns the folder of a run's experiment, and the rest of its name.
func locate(out, name string) (folder, pattern string, err error) {
	parts := strings.Split(filepath.ToSlash(name), "/")
	for n := len(parts); n > 0; n-- {
		here := strings.Join(parts[:n], "/")
		for _, folder := range []string{here, filepath.Join(out, here)} {
			if _, err := os.Stat(filepath.Join(folder, study.RunsFile)); err == nil && here != "" {
				return folder, strings.Join(parts[n:], "/"), nil
			}
		}
	}
	return "", "", fmt.Errorf("run %s: no records in %s, and %[1]s is no path of an experiment's folder", name, filepath.Join(out, parts[0]))
}

// matchesCell reports whether a cell matches a pattern. Parts that are missing at its end match everything.
func matchesCell(pattern, cell string) (bool, error) {
	pattern = strings.Trim(pattern, "/")
	if pattern == "" {
		return true, nil
	}
	parts := strings.Split(cell, "/")
	n := strings.Count(pattern, "/") + 1
	if n > len(parts) {
		return false, nil
	}
	return path.Match(pattern, strings.Join(parts[:n], "/"))
}

// few lists at most ten names.
func few(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
