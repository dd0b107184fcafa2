package study

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/semcon/semcon/sccore/progress"
)

// Options are the options of one call of an experiment.
type Options struct {
	Profile  Profile
	Data     string   // Folder of the datasets; empty for synthetic images.
	Cache    string   // Folder that keeps training images of Data as they are read, decoded and shrunk; empty for none.
	Out      string   // Folder of the records, e.g. "out".
	Seeds    int      // Number of seeds; 0 for the profile's default.
	Set      []string // "key=value" changes to the configuration.
	Only     []string // Patterns of the cells to run; all if empty.
	Parallel int      // Number of cells that run at a time; 1 if not positive.

	// Wait says that a cell that another process is running is waited for. Otherwise it is skipped, with all cells that need it.
	Wait bool

	// CheckpointEvery is the time between a run's checkpoints, and so the most work that a kill can lose. 0 writes one after every step.
	CheckpointEvery time.Duration

	// Bar opens the progress bar; nil for none.
	Bar func(title string, total int) progress.Bar
	// Watch, if not nil, is called whenever the curve of a run has grown, from several goroutines.
	Watch func(cell string, curve []Point)
	// Warn, if not nil, receives each warning as one line, such as a skipped image.
	Warn func(line string)
}

// SeedsOr returns the number of seeds: the requested one, or else the profile's.
func (o Options) SeedsOr(profile int) int {
	if o.Seeds > 0 {
		return o.Seeds
	}
	return profile
}

// Warnf reports a warning of one line.
func (o Options) Warnf(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

// BadOption is the error for an invalid option. Its text names the option and the value.
type BadOption struct{ Err error }

// Error returns the text of Err.
func (e BadOption) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e BadOption) Unwrap() error { return e.Err }

// Absent is the error for data that are not there, as opposed to damaged ones.
type Absent string

// Error says what is missing.
func (a Absent) Error() string { return string(a) }

// Is reports whether the target is [fs.ErrNotExist].
func (Absent) Is(target error) bool { return target == fs.ErrNotExist }

// Folder is the folder of an experiment's records and files.
func Folder(out, experiment string) string { return filepath.Join(out, experiment) }

// Profile is the size at which an experiment runs.
type Profile string

// The profiles.
const (
	Smoke Profile = "smoke" // Runs everything once in seconds; its numbers mean nothing.
	Quick Profile = "quick" // Shows the sign of the claims on two CPU cores.
	Real  Profile = "real"  // Trains a published transformer, from a file, on real photographs: hours on two CPU cores.
	Full  Profile = "full"  // The paper's setting.
)

// Profiles lists the profiles in the order of lists. Not every experiment has a real one.
var Profiles = []Profile{Smoke, Quick, Real, Full}

// ParseProfile returns the profile with the given name.
func ParseProfile(name string) (Profile, error) {
	if p := Profile(name); slices.Contains(Profiles, p) {
		return p, nil
	}
	return "", fmt.Errorf("profile %q is unknown; the profiles are smoke, quick, real and full", name)
}
