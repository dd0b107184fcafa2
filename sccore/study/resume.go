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
	"time"

	"github.com/semcon/semcon/internal/atomicfile"
)

// Files in a cell's folder that outlive a call: the seconds that all calls have taken so far, the files that were skipped, and the error that ended the
// last call. A running cell holds its lock.
const (
	secondsFile = "seconds"
	skippedFile = "skipped"
	failureFile = "failure"
	lockFile    = "lock"
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
