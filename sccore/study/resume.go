package study

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/progress"
)

// Files in a cell's folder that outlive a call: the seconds that all calls have taken so far, the files that were skipped, and the error that ended the
// last call. A running cell holds its lock.
const (
	LockFile = "lock" // Every run has it, also one on photographs.

	secondsFile = "seconds"
	skippedFile = "skipped"
	failureFile = "failure"
)

// load reads the state that earlier calls left behind, and removes what they were writing when they were killed.
func (r *Run[C, D]) load() error {
	if err := atomicfile.Sweep(r.Dir); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(r.Dir, failureFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	seconds, err := os.ReadFile(filepath.Join(r.Dir, secondsFile))
	if err == nil {
		if r.earlier, err = strconv.ParseFloat(strings.TrimSpace(string(seconds)), 64); err != nil {
			r.earlier = 0 // A broken time does not justify an error.
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	skipped, err := os.ReadFile(filepath.Join(r.Dir, skippedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r.skipped = strings.FieldsFunc(string(skipped), func(c rune) bool { return c == '\n' })
	return err
}

// seconds is the time that this call and earlier ones have taken.
func (r *Run[C, D]) seconds() float64 { return r.earlier + time.Since(r.began).Seconds() }

// saveSeconds saves that time for later calls.
func (r *Run[C, D]) saveSeconds() error {
	return atomicfile.WriteBytes(filepath.Join(r.Dir, secondsFile), fmt.Appendf(nil, "%g\n", r.seconds()))
}

// saveFailure saves the error that ends the cell, as one line, for [Spec.Status].
func (r *Run[C, D]) saveFailure(err error) error {
	line := strings.Join(strings.Fields(err.Error()), " ")
	return atomicfile.WriteBytes(filepath.Join(r.Dir, failureFile), []byte(line+"\n"))
}

// Skip records a skipped file with the first reason, and warns once per call. Training and measuring may give unlike reasons.
func (r *Run[C, D]) Skip(file, reason string) {
	file = strings.ReplaceAll(file, "\n", " ")
	line := file + ": " + strings.ReplaceAll(reason, "\n", " ")
	r.call.mu.Lock()
	known := r.call.skipped[file]
	r.call.skipped[file] = true
	r.call.mu.Unlock()
	if !known {
		r.Warnf("skipped %s", line)
	}
	if slices.ContainsFunc(r.skipped, func(other string) bool { return strings.HasPrefix(other, file+": ") }) {
		return
	}
	r.skipped = append(r.skipped, line)
	if err := atomicfile.WriteBytes(filepath.Join(r.Dir, skippedFile), []byte(strings.Join(r.skipped, "\n")+"\n")); err != nil {
		r.Warnf("%v", err)
	}
}

// recorded is the set of numbers that have a record.
type recorded map[recordKey]bool

// recordKey identifies a number: a row and column of a cell with its configuration and data. It includes the profile, because a run whose --set happens
// to give another profile's configuration does not appear in that profile's tables.
type recordKey struct {
	profile                       Profile
	cell, hash, row, column, data string
}

// readRecorded reads which numbers are recorded in an experiment's folder.
func readRecorded(dir string) (recorded, error) {
	records, err := Records(dir)
	if err != nil {
		return nil, err
	}
	done := recorded{}
	for _, r := range records {
		done[recordKey{r.Profile, r.Cell, r.ConfigHash, r.Row, r.Column, r.Data}] = true
	}
	return done, nil
}

// key returns the key of one of the task's numbers, whose data are identified.
func (t *task[C, D]) key(profile Profile, n Number) recordKey {
	return recordKey{profile, t.name, t.hash, n.Row, n.Column, n.Data}
}

// complete reports whether all numbers of the task are recorded.
func (t *task[C, D]) complete(done recorded, profile Profile) bool {
	missing := slices.ContainsFunc(t.numbers, func(n Number) bool { return !done[t.key(profile, n)] })
	return len(t.numbers) > 0 && !missing
}

// bar is a progress bar that several cells share.
type bar struct {
	progress.Bar
	mu     sync.Mutex
	done   int
	phases map[string]string // The phase of each running cell.
	shown  string
}

func (b *bar) move(steps int, note string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += steps
	b.Set(b.done, note)
}

func (b *bar) resumed(steps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += steps
	b.Resumed(steps)
}

// setPhase sets the phase of a cell; empty when it ends. The bar shows training while any cell trains, because its rate then counts training steps.
func (b *bar) setPhase(cell, phase string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if phase == "" {
		delete(b.phases, cell)
	} else {
		if b.phases == nil {
			b.phases = map[string]string{}
		}
		b.phases[cell] = phase
	}
	show := phase
	for _, other := range b.phases {
		if other == progress.Training || show == "" {
			show = other
		}
	}
	if show != b.shown {
		b.Phase(show)
		b.shown = show
	}
}
