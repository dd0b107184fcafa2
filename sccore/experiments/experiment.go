package experiments

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/progress"
)

// Experiment is a part of the paper that can be run again.
type Experiment struct {
	Name       string
	Title      string             // What it asks.
	Reproduces string             // Tables and figures of the paper.
	Data       string             // What it reads, and what it does without.
	Cost       map[Profile]string // Measured or estimated time of each profile.
	// Run runs what is not yet recorded.
	Run func(ctx context.Context, b compute.Backend, options Options) error
	// Tables lays the records of one profile out beside the paper's numbers.
	Tables func(records []Record, profile Profile) ([]figures.Table, error)
}

// Options say how an experiment is run.
type Options struct {
	Profile  Profile
	Data     string   // Folder of the datasets; empty for synthetic images.
	Out      string   // Folder of the records, e.g. "out".
	Seeds    int      // Number of seeds; 0 for the profile's own.
	Set      []string // "key=value" changes of the configuration.
	Only     []string // Patterns of the cells to run; all if empty.
	Parallel int      // Runs at a time; 1 if not positive.

	// CheckpointEvery is the time between a run's checkpoints: what a kill costs at most. 0 writes one after every step.
	CheckpointEvery time.Duration

	// Bar opens the progress bar; nil for none.
	Bar func(title string, total int) progress.Bar
	// Watch, if not nil, is called from several goroutines whenever a run's course has grown.
	Watch func(cell string, course []Point)
	// Warn, if not nil, is told in one line of each thing that is worth knowing and stops nothing, such as an image left out.
	Warn func(line string)
}

// bar opens the progress bar.
func (o Options) bar(title string, total int) progress.Bar {
	if o.Bar == nil {
		return progress.Discard
	}
	return o.Bar(title, total)
}

// warn tells of something in one line.
func (o Options) warn(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

// BadOption is the error of an option that the caller got wrong; its text names the option and the value.
type BadOption struct{ Err error }

func (e BadOption) Error() string { return e.Err.Error() }

// All lists the experiments.
func All() []Experiment {
	return []Experiment{effectAug, theory, noiseTolerance, pretrain, teacherQuality, ablation, mainResults, transfer, video}
}

// ByName finds an experiment; the error lists the known ones.
func ByName(name string) (Experiment, error) {
	var names []string
	for _, e := range All() {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return Experiment{}, fmt.Errorf("experiment %q is unknown; the experiments are %s", name, strings.Join(names, ", "))
}
