package study

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// State is how far a cell is.
type State string

// States are the states in which cells are listed.
var States = []State{Running, Failed, Stopped, ToDo, Done}

// The states.
const (
	Done    State = "done"    // All its numbers are recorded, or if it has none, the numbers of all cells that need it.
	Running State = "running" // A process holds its lock.
	Failed  State = "failed"  // Its last call ended with an error.
	Stopped State = "stopped" // It has begun, and no process runs it: it was interrupted or killed.
	ToDo    State = "to do"   // It has not begun.
)

// CellStatus tells how far a cell is.
type CellStatus struct {
	Name    string        `json:"name"`
	State   State         `json:"state"`
	Step    int           `json:"step"`            // Steps done at the last checkpoint; 0 without one.
	Age     time.Duration `json:"age_nanoseconds"` // Since the cell last wrote a file; 0 if it has none.
	Failure string        `json:"failure"`         // The error that ended its last call, as one line; empty unless it failed.
	Live    *Live         `json:"live,omitempty"`  // What its process tells, or told last; nil for a cell that is done or has not begun.
}

// Status tells how far each selected cell is, from records, locks and files. Other processes may be running the cells.
func (s Spec[C, D]) Status(o Options) (_ []CellStatus, err error) {
	defer try.Handle(&err)
	c, tasks, _ := try.E3(s.open(nil, o))
	done := try.E1(readRecorded(c.dir))
	var cells []Cell[C]
	var all []CellStatus
	for _, t := range tasks {
		status := CellStatus{Name: t.name, State: Done}
		if !t.complete(done, o.Profile) {
			try.E(status.read(t.dir))
		}
		cells, all = append(cells, t.Cell), append(all, status)
	}
	for i, t := range tasks {
		if len(t.numbers) == 0 && s.unneeded(t.Cell, cells, func(j int) bool { return all[j].State == Done }) {
			all[i] = CellStatus{Name: t.name, State: Done}
		}
	}
	return all, nil
}

// Recorded counts the selected cells, and those with records, without opening the data. A cell that has some of its numbers counts as recorded. others are the recorded
// runs of the profile that are not of these cells, also if an error says that the options give no cells.
func (s Spec[C, D]) Recorded(o Options) (done, all, others int, err error) {
	defer try.Handle(&err)
	records := try.E1(Records(Folder(o.Out, s.Name)))
	recorded := lo.FilterSliceToMap(records, func(r Record) ([2]string, bool, bool) {
		return [2]string{r.Cell, r.ConfigHash}, true, r.Profile == o.Profile
	})
	others = len(recorded)
	names, _ := try.E2(s.datasets(o))
	cells := try.E1(s.selected(o, names))
	is := func(i int) bool { return recorded[[2]string{cells[i].Name(), cells[i].Hash()}] }
	for i, cell := range cells {
		if is(i) || s.unneeded(cell, cells, is) { // Cells without numbers have no records.
			done++
		}
		others -= lo.Ternary(is(i), 1, 0)
	}
	return done, len(cells), others, nil
}

// FromFiles adds the settings that name files which recorded runs on photographs start from, where the options have no such settings.
func (e Experiment) FromFiles(o Options) Options {
	records, _ := Records(Folder(o.Out, e.Name)) // Broken ones are reported where they are read.
	for _, key := range lo.Ternary(o.Data != "" || o.Profile == Real || o.Profile == Full, e.Files, nil) {
		part, field, _ := strings.Cut(key, ".")
		last, _, _ := lo.FindLastIndexOf(records, func(r Record) bool {
			return r.Profile == o.Profile && r.Kind == figures.Real && (field == "" || strings.Contains("/"+r.Cell, "/"+part+"/"))
		})
		var config map[string]any
		_ = json.Unmarshal(last.Config, &config)
		if file, _ := config[cmp.Or(field, part)].(string); file != "" && !settings.Given(o.Set, key) {
			o.Set = append(slices.Clip(o.Set), key+"="+file)
			o.Warnf("as recorded runs start: --set %s=%s", key, file)
		}
	}
	return o
}

// unneeded reports whether a cell without numbers has done its part: there are cells that need it, and all of them are done.
func (s Spec[C, D]) unneeded(cell Cell[C], cells []Cell[C], done func(i int) bool) bool {
	if s.Needs == nil {
		return false
	}
	those := lo.FilterMap(cells, func(other Cell[C], i int) (int, bool) {
		return i, slices.ContainsFunc(s.Needs(other), func(n Cell[C]) bool { return n.Name() == cell.Name() })
	})
	return len(those) > 0 && lo.EveryBy(those, done)
}

// read reads the state of a cell that is not recorded from its folder and its lock.
func (c *CellStatus) read(dir string) error {
	if err := c.readFiles(dir); err != nil || c.State == ToDo {
		return err
	}
	unlock, free, err := filelock.Try(filepath.Join(dir, LockFile))
	switch {
	case err != nil:
	case free:
		unlock()
	default:
		c.State, c.Failure = Running, ""
	}
	return err
}

// readFiles reads the state from the files of a run. A running one counts as stopped.
func (c *CellStatus) readFiles(dir string) error {
	c.State = ToDo
	var last, saved time.Time
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // The cell has no folder, or a running one has removed a file.
			return nil
		} else if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil // Removed meanwhile.
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
		if step, ok := train.CheckpointStep(entry.Name()); ok && info.ModTime().After(saved) {
			saved, c.Step = info.ModTime(), step
		}
		return nil
	})
	if err != nil || last.IsZero() {
		return err
	}
	c.State, c.Age = Stopped, max(0, time.Since(last))
	if content, err := os.ReadFile(filepath.Join(dir, progressFile)); err == nil && json.Unmarshal(content, &c.Live) != nil {
		c.Live = nil // A copy that was cut off.
	}
	failure, err := os.ReadFile(filepath.Join(dir, failureFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c.State, c.Failure = Failed, strings.TrimSpace(string(failure))
	return err
}

// Select reports which of the named cells match at least one pattern. A pattern has the same parts as the names, such as dataset/method/row/seed, with
// the wildcards of path.Match. Missing parts at the end match everything; if nothing matches, the first part may be missing, as in "line5/seed0". kinds names the parts; names with fewer parts lack the first kinds. A pattern
// that matches nothing is an error that lists the alternatives.
func Select(names, kinds, patterns []string) ([]bool, error) {
	if len(patterns) == 0 || len(names) == 0 {
		return slices.Repeat([]bool{true}, len(names)), nil
	}
	keep := make([]bool, len(names))
	kinds = kinds[max(0, len(kinds)-len(strings.Split(names[0], "/"))):]
	for _, pattern := range patterns {
		parts := strings.Split(pattern, "/")
		if len(parts) > len(kinds) {
			return nil, fmt.Errorf("--only %q has more parts than %s", pattern, strings.Join(kinds, "/"))
		}
		missing, matched := slices.Repeat([]string{"*"}, len(kinds)-len(parts)), false
		for front := 0; front <= min(1, len(missing)) && !matched; front++ {
			whole := strings.Join(slices.Concat(missing[:front], parts, missing[front:]), "/")
			for i, name := range names {
				match, err := path.Match(whole, name)
				if err != nil {
					return nil, fmt.Errorf("--only %q: %w", pattern, err)
				}
				if match {
					keep[i], matched = true, true
				}
			}
		}
		if !matched {
			return nil, fmt.Errorf("--only %q matches no run; %s", pattern, mismatch(names, kinds, append(parts, missing...)))
		}
	}
	return keep, nil
}

// mismatch names the first part of a pattern that no cell matches, and lists what the cells have there.
func mismatch(names, kinds, parts []string) string {
	for i, kind := range kinds {
		all := lo.Uniq(lo.Map(names, func(name string, _ int) string { return strings.Split(name, "/")[i] }))
		matches := func(part string) bool {
			ok, _ := path.Match(parts[i], part)
			return ok
		}
		if !slices.ContainsFunc(all, matches) {
			return fmt.Sprintf("no %s %q among %s", kind, parts[i], strings.Join(all, ", "))
		}
	}
	return "each part matches some run, but no run matches them all"
}

// progressFile is in the folder of a run that has begun and not finished. It says how far the run is, and is written anew every second while a process runs it.
const progressFile, progressWriting = "progress.json", ".writing-progress.json" // The second is the file while it is written.

// silence is the age of progressFile from which on no process runs the run.
const silence = 15 * time.Second

// Live is how far a run is, as its process tells those that watch it.
type Live struct {
	Title   string `json:"title"`
	Done    int    `json:"done"` // Steps.
	Total   int    `json:"total"`
	Summary string `json:"summary"`        // With the rate, the time left and the last losses; see [progress.State.Summary].
	Call    string `json:"call,omitempty"` // The title and the summary of all cells that the process runs.
	Process string `json:"runner"`         // A random name: processes of containers often have one number.
	Memory  int64  `json:"memory"`         // The most that the process has held, in bytes; 0 if unknown.
}

// process is the name of this one in [Live].
var process = rand.Text()

// MemoryNote is the memory as it stands behind the summary, empty if it is unknown.
func (l Live) MemoryNote() string {
	return lo.Ternary(l.Memory == 0, "", fmt.Sprintf("  %.1f GiB", float64(l.Memory)/(1<<30)))
}

// Watched returns a bar that keeps its state in the folder of a run, for [ReadFolder]. call, if not nil, is asked for the summary of all runs of the process. The run ends with a
// call of end, with its error.
func Watched(dir, title string, total int, call func() string) (bar progress.Bar, end func(error)) {
	file := filepath.Join(dir, progressFile)
	bar = progress.Draw(title, total, time.Second, func(s *progress.State) {
		live := Live{Title: s.Title, Done: s.Done, Total: s.Total, Summary: s.Summary(), Process: process, Memory: peakMemory()}
		if call != nil {
			live.Call = call()
		}
		content, err := json.Marshal(live)
		// Without a sync and without an error: it is for the next second only, and a full disk is reported by what matters.
		if temp := filepath.Join(dir, progressWriting); err == nil && os.WriteFile(temp, content, 0o666) == nil {
			_ = os.Rename(temp, file)
		}
	})
	return bar, func(err error) {
		if bar.Close(); err == nil {
			_ = os.Remove(file)
			return
		}
		ended := time.Now().Add(-silence)
		_ = os.Chtimes(file, ended, ended)
	}
}

// Tidy removes what a run that was killed just after its last result leaves in its folder: checkpoints, and how far it was. There may be no folder, and what
// cannot be removed does no harm.
func Tidy(dir string) {
	_ = train.RemoveCheckpoints(dir, 0)
	_ = os.Remove(filepath.Join(dir, progressFile))
	_ = os.Remove(filepath.Join(dir, progressWriting))
}

// ReadFolder tells how far a run is from the files in its folder: a cell, or a training on photographs. It takes no lock, so that it keeps no run from
// starting. The folder may be a copy, and another host may be writing it.
func ReadFolder(dir string) (c CellStatus, err error) {
	err = c.readFiles(dir)
	switch {
	case err != nil || c.State != Stopped:
	case c.Live == nil && c.Step == 0:
		c.State = Done
	case c.Live != nil:
		if info, failed := os.Stat(filepath.Join(dir, progressFile)); failed == nil && time.Since(info.ModTime()) < silence {
			c.State = Running
		}
	}
	return c, err
}
