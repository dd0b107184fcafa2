package report

import (
	"fmt"
	"maps"
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
// --only takes it: "ablation/line2", "other/out/pretrain". The first part of cells' names, the dataset, may be left out where one dataset has such cells. "@" and the first digits of a configuration's hash at the end choose among runs of a cell with several settings.
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
	records = slices.DeleteFunc(records, func(r study.Record) bool { return r.Profile != profile })
	var cells []string
	for _, r := range records {
		add(&cells, r.Cell)
	}
	matching, err := matchingCells(pattern, cells)
	if err != nil {
		return s, fmt.Errorf("run %s: %w", name, err)
	}
	hashes := map[string][]string{} // By cell.
	for _, r := range records {
		if !slices.Contains(matching, r.Cell) || !strings.HasPrefix(r.ConfigHash, hash) {
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

// trainedFile is in every folder of "semcon train".
const trainedFile = "run.json"

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
	for _, folder := range []string{name, filepath.Join(out, name)} {
		if _, err := os.Stat(filepath.Join(folder, trainedFile)); err == nil {
			return "", "", fmt.Errorf("run %s: %s is a folder of \"semcon train\"; this compares experiments, and \"semcon evaluate\" measures trained encoders", name, folder)
		}
	}
	return "", "", fmt.Errorf("run %s: no records in %s, and %[1]s is no path of an experiment's folder", name, filepath.Join(out, parts[0]))
}

// matchingCells lists the cells that match a pattern; if none does, those of one dataset that match it without their first part.
func matchingCells(pattern string, cells []string) (matching []string, err error) {
	short := map[string][]string{} // By dataset.
	for _, cell := range cells {
		matches, err := matchesCell(pattern, cell)
		if err != nil {
			return nil, err
		}
		if matches {
			matching = append(matching, cell)
		}
		dataset, rest, _ := strings.Cut(cell, "/")
		if matches, err := matchesCell(pattern, rest); err == nil && matches && strings.Contains(rest, "/") { // A seed alone is no name.
			short[dataset] = append(short[dataset], cell)
		}
	}
	if matching != nil || len(short) == 0 {
		return matching, nil
	}
	if len(short) > 1 {
		var candidates []string
		for _, dataset := range slices.Sorted(maps.Keys(short)) {
			candidates = append(candidates, short[dataset][0])
		}
		return nil, fmt.Errorf("several datasets have it: name one, as in %s", few(candidates))
	}
	for _, all := range short {
		matching = all
	}
	return matching, nil
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
