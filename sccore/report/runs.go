package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/ownimages"
	"github.com/semcon/semcon/sccore/recipe"
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
func Select(out, name string, profile study.Profile) (_ Selection, err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("run %s: %w", name, err) })
	located, hash, _ := strings.Cut(name, "@")
	for _, folder := range []string{name, filepath.Join(out, name)} {
		if records, err := ownimages.Records(folder); err == nil {
			return Selection{name, folder, records}, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			try.E(err)
		}
	}
	folder, pattern := try.E2(locate(out, located))
	s := Selection{Name: name, Folder: folder}
	records := try.E1(study.Records(folder))
	others := study.OtherProfiles(records, profile)
	records = slices.DeleteFunc(records, func(r study.Record) bool { return r.Profile != profile })
	cells := lo.Uniq(lo.Map(records, func(r study.Record, _ int) string { return r.Cell }))
	matching := try.E1(matchingCells(cmp.Or(strings.Trim(pattern, "/"), "*"), cells))
	s.Records = lo.Filter(records, func(r study.Record, _ int) bool {
		return slices.Contains(matching, r.Cell) && strings.HasPrefix(r.ConfigHash, hash)
	})
	for _, cell := range matching {
		ofCell := lo.Filter(s.Records, func(r study.Record, _ int) bool { return r.Cell == cell })
		ran := lo.Uniq(lo.Map(ofCell, func(r study.Record, _ int) string { return r.ConfigHash }))
		if len(ran) > 1 {
			first, others := lo.FilterReject(ofCell, func(r study.Record, _ int) bool { return r.ConfigHash == ran[0] })
			differ := brief(differences(facts(first), facts(others)))
			return s, fmt.Errorf("run %s: %s was run with %d configurations; choose one by @%s: they differ in %s", name, cell, len(ran), strings.Join(ran, " or @"), differ)
		}
	}
	switch {
	case len(others) > 0:
		return s, fmt.Errorf("run %s: no records of profile %s in %s; there are some of --profile %s", name, profile, folder, strings.Join(others, ", --profile "))
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
	there := lo.Filter([]string{name, filepath.Join(out, parts[0])}, func(folder string, _ int) bool { _, err := os.Stat(folder); return err == nil })
	if len(there) == 0 {
		return "", "", fmt.Errorf("no records in %s: there is no such folder, and none at %s", filepath.Join(out, parts[0]), name)
	}
	return "", "", fmt.Errorf("no records in %s, and no training of \"semcon train\"", there[0])
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

// Run is a run as its files tell: a cell of an experiment, or a training on photographs.
type Run struct {
	study.CellStatus          // Named for the folder with the seed last, without the hash of the configuration where no other run is named so.
	Folder           string   // Where its files are.
	Files            []string // Its curves: one, or one for each stage.
}

// stage1 matches the folder of the ablation's cell stage1. The folder is called first, like pretrain's stage.
var stage1 = regexp.MustCompile(`(seed\d+-[0-9a-f]{12})/first$`)

// configHash is the end of a cell's folder, and cellsFolder the part of its path that says nothing. seedFirst is the path of a cell that shares a folder with others of its seed.
var configHash, cellsFolder, seedFirst = regexp.MustCompile(`-[0-9a-f]{12}(/|$)`), regexp.MustCompile(`(^|/)cells/`), regexp.MustCompile(`(seed\d+-[0-9a-f]{12})/(.+)$`)

// Runs lists the runs below a folder: the running ones first, and runs of equal state by when they last wrote. They may go on meanwhile, here or on another
// host. A folder that does not exist has none.
func Runs(folder string) (runs []Run, err error) {
	if real, err := filepath.EvalSymlinks(folder); err == nil { // WalkDir does not follow a link.
		folder = real
	}
	var files []string
	named := map[string]int{}
	short := func(name string) string { return configHash.ReplaceAllString(name, "$1") }
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // A running process removes files.
			return nil
		} else if err != nil {
			return err
		}
		switch entry.Name() {
		case recipe.CurveFile, ownimages.MetricsFile:
			files = append(files, path)
		case study.LockFile:
			r := Run{Folder: filepath.Dir(path)}
			if r.CellStatus, err = study.ReadFolder(r.Folder); err != nil {
				return err
			}
			name := stage1.ReplaceAllString(cellsFolder.ReplaceAllString(below(folder, r.Folder), "$1"), "$1/stage1")
			r.Name = cmp.Or(seedFirst.ReplaceAllString(name, "$2/$1"), filepath.Base(folder))
			named[short(r.Name)]++
			runs = append(runs, r)
		}
		return nil
	})
	for i := range runs {
		r := &runs[i]
		if name := short(r.Name); named[name] == 1 {
			r.Name = name
		}
		r.Files = lo.Filter(files, func(file string, _ int) bool {
			inside, err := filepath.Rel(r.Folder, file)
			return err == nil && filepath.IsLocal(inside)
		})
	}
	slices.SortStableFunc(runs, func(a, b Run) int {
		return cmp.Or(slices.Index(study.States, a.State)-slices.Index(study.States, b.State), cmp.Compare(a.Age, b.Age))
	})
	return runs, err
}

// below is the path of a folder below another one, with slashes; empty if they are the same.
func below(folder, path string) string {
	path, _ = filepath.Rel(folder, path) // Both come from one walk.
	return strings.TrimPrefix(filepath.ToSlash(path), ".")
}

// Curves are the curves that runs have recorded along the way, the losses first, with a series for each stage of each run. Several runs are A, B and so on. A
// file that ends in the middle of a line, as a copy may, gives what stands before it.
func Curves(runs ...Run) (all []figures.Curves) {
	var names []string // A series looks the same in all plots.
	for i, r := range runs {
		for _, file := range r.Files {
			name := below(r.Folder, filepath.Dir(file))
			if len(runs) > 1 {
				name = strings.TrimSpace(string(rune('A'+i)) + " " + name)
			}
			add(&names, name)
			addCurves(&all, name, file)
		}
	}
	for _, c := range all {
		for i := range c.Series {
			c.Series[i].Look = slices.Index(names, c.Series[i].Name) + 1
		}
	}
	return changing(all)
}

// addCurves adds a series to the curves of each quantity that files have recorded along the way: the means over the files. The errors name files of which only
// the beginning is read.
func addCurves(all *[]figures.Curves, name string, files ...string) (errs []error) {
	recorded, errs := quantities(files...)
	for quantity, steps := range recorded {
		at := slices.IndexFunc(*all, func(c figures.Curves) bool { return c.Y == quantity })
		if at < 0 {
			at, *all = len(*all), append(*all, figures.Curves{X: "step", Y: quantity})
		}
		for _, step := range slices.Sorted(maps.Keys(steps)) {
			figures.AddPoint(&(*all)[at].Series, name, step, stats.MeanInterval(steps[step]).Mean)
		}
	}
	return errs
}

// changing sorts curves, the losses first, and leaves out what never changes, such as a loss that is switched off.
func changing(all []figures.Curves) []figures.Curves {
	order := append([]string{"total", "loss"}, lo.Map(sccore.Losses[:], func(loss sccore.Loss, _ int) string { return loss.Name })...)
	all = slices.DeleteFunc(all, func(c figures.Curves) bool {
		first := c.Series[0].Y
		return len(first) > 1 && !slices.ContainsFunc(c.Series, func(s figures.Series) bool {
			return slices.ContainsFunc(s.Y, func(y float64) bool { return y != first[0] })
		})
	})
	place := func(c figures.Curves) int { return (slices.Index(order, c.Y) + len(order) + 1) % (len(order) + 1) } // Others come last.
	slices.SortFunc(all, func(a, b figures.Curves) int { return cmp.Or(place(a)-place(b), cmp.Compare(a.Y, b.Y)) })
	return all
}

// quantities reads curves, each of lines of JSON or a table: by quantity and step, a value for each file. Points without a step are left out, and those before an
// error are good.
func quantities(files ...string) (all map[string]map[float64][]float64, errs []error) {
	all = map[string]map[float64][]float64{}
	for _, file := range files {
		var lines []map[string]string
		var recorded []json.RawMessage
		var err error
		if filepath.Ext(file) == ".csv" {
			lines, err = ownimages.ReadMetrics(file)
		} else {
			recorded, err = study.ReadCurve[json.RawMessage](file)
		}
		if err != nil {
			errs = append(errs, err)
		}
		lines = append(lines, lo.Map(recorded, func(line json.RawMessage, _ int) map[string]string { return flatten(line) })...)
		for _, line := range lines {
			step, failed := strconv.ParseFloat(line["step"], 64)
			for quantity, text := range line {
				value, none := strconv.ParseFloat(text, 64)
				if failed != nil || none != nil || quantity == "step" || quantity == "epoch" {
					continue
				}
				if all[quantity] == nil {
					all[quantity] = map[float64][]float64{}
				}
				all[quantity][step] = append(all[quantity][step], value)
			}
		}
	}
	return all, errs
}
