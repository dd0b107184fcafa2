package study

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/semcon/semcon/sccore/progress"
)

// Options say how an experiment is run.
type Options struct {
	Profile  Profile
	Data     string   // Folder of the datasets; empty for synthetic images.
	Out      string   // Folder of the records, e.g. "out".
	Seeds    int      // Number of seeds; 0 for the profile's own.
	Set      []string // "key=value" changes of the configuration.
	Only     []string // Patterns of the cells to run; all if empty.
	Parallel int      // Cells at a time; 1 if not positive.

	// CheckpointEvery is the time between a run's checkpoints: what a kill costs at most. 0 writes one after every step.
	CheckpointEvery time.Duration

	// Bar opens the progress bar; nil for none.
	Bar func(title string, total int) progress.Bar
	// Watch, if not nil, is called from several goroutines whenever the curve of a run has grown.
	Watch func(cell string, curve []Point)
	// Warn, if not nil, gets one line for each thing that is worth knowing and stops nothing, such as an image that is left out.
	Warn func(line string)
}

// SeedsOr is the number of seeds: the one that is asked for, or else the profile's.
func (o Options) SeedsOr(profile int) int {
	if o.Seeds > 0 {
		return o.Seeds
	}
	return profile
}

// Warnf reports something in one line.
func (o Options) Warnf(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

// BadOption is the error of an option that the caller got wrong; its text names the option and the value.
type BadOption struct{ Err error }

func (e BadOption) Error() string { return e.Err.Error() }

func (e BadOption) Unwrap() error { return e.Err }

// Folder is where an experiment's records and files stand.
func Folder(out, experiment string) string { return filepath.Join(out, experiment) }
