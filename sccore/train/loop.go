package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/safetensors"
)

// Trainable is what a [Loop] trains to its end. A [Trainer] is one.
type Trainable[M any] interface {
	Steps() int
	Done() int
	// Step takes one step. When ctx ends it returns ctx's error and leaves the run where it stood.
	Step(ctx context.Context) (M, error)
	Save(path, note string) error
	Resume(path string) (note string, err error)
}

// Evaluator measures what training has learnt so far, such as the k-NN accuracy of the features. It must leave the variables as they are, so that a
// run is the same with and without it.
type Evaluator struct {
	Name  string
	Every int // Steps between two evaluations; the last step is evaluated too. 0 turns the evaluator off.
	// Evaluate returns values by name. ctx ends when the run is stopped.
	Evaluate func(ctx context.Context) (map[string]float64, error)
}

// Loop trains from the state of a folder to the end of the run. A run that is stopped or killed, any number of times, ends the same as one that never
// stopped. Only one process may use a folder at a time.
type Loop[M any] struct {
	Trainer Trainable[M]
	Dir     string // The folder of the checkpoints; it is created.
	Final   string // The file in Dir that the run writes at its end; empty for none. A run that has it is done.

	// Start begins a run that has no checkpoint. It is nil if the caller has begun the run, which a trainer needs whose checkpoints do not identify their run.
	Start func() error
	// Resumed is called with the number of steps that a checkpoint has done.
	Resumed func(done int)

	Every time.Duration // Time between checkpoints, the most that a kill can cost. 0 writes one after every step.
	Keep  int           // Checkpoints to keep; 0 for 2.
	// Note points to what else belongs to the run, such as its curve. It is saved as JSON with each checkpoint and restored from it.
	Note any

	// Saved is called after each checkpoint. Nil for nothing.
	Saved func() error
	// Damaged is told of a checkpoint that cannot be read, where an older one can, and of the name under which it is kept.
	Damaged func(keptAs string, err error)

	Evaluators []Evaluator
	// After is called after each step with the step's report and with what was evaluated after it, under "evaluator/value".
	After func(step M, evaluated map[string]float64) error
	// Phase is called with what the loop does next, whenever that changes: [progress.Compiling] until the end of the first step, which takes longer than the
	// others, [progress.Training] or [progress.Measuring].
	Phase func(phase string)

	phase   string
	trimmed map[string]bool // Phases after which memory was given back.
}

// Names of checkpoints. Earlier versions kept a single one, without a number.
const (
	checkpointPrefix  = "step-"
	checkpointSuffix  = ".safetensors"
	earlierCheckpoint = "checkpoint" + checkpointSuffix
	damagedSuffix     = ".damaged"
)

// Run trains. When ctx ends, Run writes a checkpoint and returns ctx's error. If ctx ends during an evaluation, the run resumes from the checkpoint
// before it, so that After misses no step.
func (l *Loop[M]) Run(ctx context.Context) (err error) {
	defer try.Handle(&err)
	l.phase, l.trimmed = "", map[string]bool{}
	l.enter(progress.Compiling)
	final := try.E1(l.begin())
	t := l.Trainer
	savedAt, saved := t.Done(), time.Now()
	for t.Done() < t.Steps() {
		if t.Done() > savedAt && (ctx.Err() != nil || time.Since(saved) > l.Every) {
			try.E(l.save(fmt.Sprintf("%s%09d%s", checkpointPrefix, t.Done(), checkpointSuffix)))
			try.E(RemoveCheckpoints(l.Dir, cmp.Or(l.Keep, 2)))
			savedAt, saved = t.Done(), time.Now()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		step, err := t.Step(ctx)
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			continue // The step was not taken.
		case err != nil:
			return err
		}
		l.enter(progress.Training)
		evaluated := try.E1(l.evaluate(ctx))
		l.enter(progress.Training)
		if l.After != nil {
			try.E(l.After(step, evaluated))
		}
	}
	if l.Final == "" || final {
		return nil
	}
	return l.save(l.Final)
}

// evaluate runs the evaluators that are due. It names values "evaluator/value" and returns nil if none was due.
func (l *Loop[M]) evaluate(ctx context.Context) (values map[string]float64, err error) {
	done := l.Trainer.Done()
	for _, evaluator := range l.Evaluators {
		if evaluator.Every == 0 || done%evaluator.Every != 0 && done != l.Trainer.Steps() {
			continue
		}
		l.enter(progress.Measuring)
		measured, err := evaluator.Evaluate(ctx)
		if errors.As(err, new(safetensors.NotFinite)) { // The last step has made weights that no loss has seen yet.
			err = fmt.Errorf("%w: %w", ErrDiverged, err)
		}
		if err != nil {
			return nil, fmt.Errorf("%s after step %d: %w", evaluator.Name, done, err)
		}
		values = lo.Assign(values, lo.MapKeys(measured, func(_ float64, name string) string { return evaluator.Name + "/" + name }))
	}
	return values, nil
}

// enter reports a change of phase.
func (l *Loop[M]) enter(phase string) {
	if phase != l.phase && l.Phase != nil {
		l.Phase(phase)
	}
	// The first step and the first evaluation compile.
	if phase == progress.Training && phase != l.phase && !l.trimmed[l.phase] {
		backend.Trim()
		l.trimmed[l.phase] = true
	}
	l.phase = phase
}

// begin restores the last checkpoint or starts the run. It reports whether that checkpoint is the final one.
func (l *Loop[M]) begin() (final bool, err error) {
	defer try.Handle(&err)
	try.E(os.MkdirAll(l.Dir, 0o777))
	try.E(atomicfile.Sweep(l.Dir))
	checkpoints := try.E1(listCheckpoints(l.Dir))
	if l.Final != "" {
		if _, err := os.Stat(filepath.Join(l.Dir, l.Final)); err == nil {
			checkpoints = append(checkpoints, l.Final)
		}
	}
	if len(checkpoints) == 0 {
		if l.Start == nil {
			return false, nil
		}
		return false, l.Start()
	}
	from, err := l.resume(checkpoints)
	if err != nil {
		return false, fmt.Errorf("%w (remove %s to start this run afresh)", err, l.Dir)
	}
	if l.Resumed != nil {
		l.Resumed(l.Trainer.Done())
	}
	return from == l.Final, nil
}

// resume sets the run to the last of the checkpoints that can be read, and keeps damaged ones behind it under other names. If none can be read, the error is
// about the last one.
func (l *Loop[M]) resume(checkpoints []string) (from string, err error) {
	var damaged []error
	for _, name := range slices.Backward(checkpoints) {
		path := filepath.Join(l.Dir, name)
		note, err := l.Trainer.Resume(path)
		if err == nil && l.Note != nil {
			if err = json.Unmarshal([]byte(note), l.Note); err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
		}
		if err != nil {
			damaged = append(damaged, err)
			continue
		}
		for i, err := range damaged {
			path := filepath.Join(l.Dir, checkpoints[len(checkpoints)-1-i])
			if err := os.Rename(path, path+damagedSuffix); err != nil {
				return "", err
			}
			if l.Damaged != nil {
				l.Damaged(path+damagedSuffix, err)
			}
		}
		return name, nil
	}
	return "", damaged[0]
}

// save writes a checkpoint into the folder.
func (l *Loop[M]) save(name string) (err error) {
	path, note := filepath.Join(l.Dir, name), []byte{}
	if l.Note != nil {
		if note, err = json.Marshal(l.Note); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	if err := l.Trainer.Save(path, string(note)); err != nil || l.Saved == nil {
		return err
	}
	return l.Saved()
}

// listCheckpoints lists the checkpoints of a folder, oldest first.
func listCheckpoints(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries { // By name: "checkpoint" is before "step", as it should be, since numbered checkpoints are from later versions.
		if _, numbered := CheckpointStep(entry.Name()); numbered || entry.Name() == earlierCheckpoint {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// CheckpointStep returns the steps that a checkpoint with this file name holds; ok is false for other files.
func CheckpointStep(name string) (step int, ok bool) {
	number, numbered := strings.CutPrefix(strings.TrimSuffix(name, checkpointSuffix), checkpointPrefix)
	step, err := strconv.Atoi(number)
	return step, err == nil && step >= 0 && numbered && strings.HasSuffix(name, checkpointSuffix)
}

// Clean removes all checkpoints except the final file. Callers do so once the run's results are recorded.
func (l *Loop[M]) Clean() error { return RemoveCheckpoints(l.Dir, 0) }

// RemoveCheckpoints removes the oldest checkpoints that a run has left in its folder and keeps the given number of them. Final files have other names.
func RemoveCheckpoints(dir string, keep int) (err error) {
	defer try.Handle(&err)
	names := try.E1(listCheckpoints(dir))
	for _, name := range names[:max(0, len(names)-keep)] {
		try.E(os.Remove(filepath.Join(dir, name)))
	}
	return nil
}
