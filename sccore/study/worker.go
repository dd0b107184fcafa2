package study

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/backend"
)

// Run is a cell at work: what a worker is given to run it.
type Run[C comparable, D Data] struct {
	Context context.Context
	Cell    Cell[C]
	Data    D
	Dir     string // The cell's folder, which is there and locked.

	call  *call[C, D]
	found recorded
	steps int // The cell's share of the bar,
	moved int // and how much of it is done.
	began time.Time

	earlier float64  // Seconds of earlier calls.
	skipped []string // Files that the cell has left out, with the reason, in all calls.
}

// Backend is what computations run on.
func (r *Run[C, D]) Backend() compute.Backend { return r.call.backend }

// Options are those of the call.
func (r *Run[C, D]) Options() Options { return r.call.options }

// Root is the experiment's folder.
func (r *Run[C, D]) Root() string { return r.call.dir }

// Warnf reports in one line what is worth knowing and stops nothing.
func (r *Run[C, D]) Warnf(format string, args ...any) { r.call.options.Warnf(format, args...) }

// Phase shows what the cell does now, such as progress.Compiling.
func (r *Run[C, D]) Phase(name string) { r.call.bar.setPhase(r.Cell.Name(), name) }

// Say shows what the cell is at behind the bar, which stays where it is.
func (r *Run[C, D]) Say(format string, args ...any) {
	r.call.bar.move(0, r.Cell.Name()+"  "+fmt.Sprintf(format, args...))
}

// Step moves the bar by one and shows a note.
func (r *Run[C, D]) Step(format string, args ...any) {
	r.moved++
	r.call.bar.move(1, r.Cell.Name()+"  "+fmt.Sprintf(format, args...))
}

// Found moves the bar over steps that an earlier call has taken.
func (r *Run[C, D]) Found(steps int) {
	r.moved += steps
	r.call.bar.found(steps)
}

// end moves the bar to where the cell's share ends.
func (r *Run[C, D]) end() {
	r.Phase("")
	if r.moved < r.steps {
		r.call.bar.found(r.steps - r.moved)
	}
}

// Path is a file of the cell's folder as records name it: relative to the experiment's folder.
func (r *Run[C, D]) Path(file string) (string, error) {
	relative, err := filepath.Rel(r.call.dir, filepath.Join(r.Dir, file))
	return filepath.ToSlash(relative), err
}

// Wants tells whether at least one number of a row is to be recorded.
func (r *Run[C, D]) Wants(row string) bool {
	return slices.ContainsFunc(r.call.Numbers(r.Data, r.Cell), func(n Number) bool { return n.Row == row && r.wants(n) })
}

func (r *Run[C, D]) wants(n Number) bool {
	return r.call.wanted[r.Cell.Name()] && !r.found[key(r.call.options.Profile, r.Cell, r.Data, n)]
}

// Record writes those of the numbers that are to be recorded, and are not yet.
func (r *Run[C, D]) Record(numbers ...Number) error {
	for _, n := range numbers {
		if !r.wants(n) {
			continue
		}
		record := Record{
			Experiment: r.call.Name, Cell: r.Cell.Name(), Row: n.Row, Column: n.Column, Metric: n.Metric, Unit: n.Unit, Value: n.Value,
			Seed: r.Cell.Seed, Profile: r.call.options.Profile, Config: EncodeConfig(r.Cell.Config), ConfigHash: r.Cell.Hash(),
			Protocol: n.Protocol, Data: n.Data, Details: n.Details, Curve: n.Curve, Skipped: append(slices.Clone(r.Data.Skipped()), r.skipped...),
			Backend: backend.Name(), Versions: backend.Versions(), Seconds: n.Seconds, Finished: time.Now().UTC().Truncate(time.Second),
		}
		if record.Data == "" {
			record.Data = r.Data.Identity()
		}
		if record.Seconds == 0 {
			record.Seconds = r.seconds()
		}
		if err := record.Append(r.call.dir); err != nil {
			return err
		}
		r.found[key(r.call.options.Profile, r.Cell, r.Data, n)] = true
	}
	return nil
}
