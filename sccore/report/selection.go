package report

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/ownimages"
	"github.com/semcon/semcon/sccore/study"
)

// Selection is the records of a run: one or more cells of an experiment, with all their seeds.
type Selection struct {
	Name    string // As it was given.
	Folder  string // The experiment's folder.
	Records []study.Record
}

// Select finds the records of a run in a profile. A run is the folder of a training on images ([ownimages.Train]), which has no profile, or an experiment below the
// folder out, or the path of an experiment's folder, and behind it a pattern of cells as --only takes it: "ablation/line2", "other/out/pretrain". The first part of cells' names, the dataset, may be left out where one dataset has such cells. "@" and the
// first digits of a configuration's hash at the end choose among runs of a cell with several settings.
func Select(out, name string, profile study.Profile) (Selection, error) {
	located, hash, _ := strings.Cut(name, "@")
	for _, folder := range []string{name, filepath.Join(out, name)} {
		if records, err := ownimages.Records(folder); err == nil {
			return Selection{name, folder, records}, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return Selection{}, fmt.Errorf("run %s: %w", name, err)
		}
	}
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
	matching, err := matchingCells(cmp.Or(strings.Trim(pattern, "/"), "*"), cells)
	if err != nil {
		return s, fmt.Errorf("run %s: %w", name, err)
	}
	hashes := map[string][]string{} // By cell.
	for _, r := range records {
		if slices.Contains(matching, r.Cell) && strings.HasPrefix(r.ConfigHash, hash) {
			s.Records = append(s.Records, r)
			if !slices.Contains(hashes[r.Cell], r.ConfigHash) {
				hashes[r.Cell] = append(hashes[r.Cell], r.ConfigHash)
			}
		}
	}
	for _, cell := range matching {
		if ran := hashes[cell]; len(ran) > 1 {
			return s, fmt.Errorf("run %s: %s was run with %d configurations; choose one by @%s", name, cell, len(ran), strings.Join(ran, " or @"))
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
			if _, err := os.Stat(filepath.Join(folder, study.RunsFile)); here != "" && err == nil {
				return folder, strings.Join(parts[n:], "/"), nil
			}
		}
	}
	return "", "", fmt.Errorf("run %s: no records in %s, and %[1]s is no path of an experiment's folder", name, filepath.Join(out, parts[0]))
}

// matchingCells lists the cells that match a pattern. If none does, it lists the cells of one dataset that match it without their first part. Parts that are
// missing at a pattern's end match everything.
func matchingCells(pattern string, cells []string) (matching []string, err error) {
	matches := func(name string) bool {
		padded := pattern + strings.Repeat("/*", max(0, strings.Count(name, "/")-strings.Count(pattern, "/")))
		ok, failure := path.Match(padded, name)
		err = cmp.Or(err, failure)
		return ok
	}
	short := map[string][]string{} // By dataset.
	for _, cell := range cells {
		if matches(cell) {
			matching = append(matching, cell)
		}
		if dataset, rest, _ := strings.Cut(cell, "/"); strings.Contains(rest, "/") && matches(rest) { // A seed alone is no name.
			short[dataset] = append(short[dataset], cell)
		}
	}
	if err != nil || matching != nil {
		return matching, err
	}
	var candidates []string
	for _, dataset := range slices.Sorted(maps.Keys(short)) {
		matching, candidates = short[dataset], append(candidates, short[dataset][0])
	}
	if len(candidates) > 1 {
		return nil, fmt.Errorf("several datasets have it: name one, as in %s", few(candidates))
	}
	return matching, nil
}

// few lists at most ten names.
func few(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
