package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/semcon/semcon/internal/atomicfile"
)

// Trainable is what a [Loop] brings to its end. A [Trainer] is one.
type Trainable[M any] interface {
	Steps() int
	Done() int
	// Step takes one step. An error of ctx leaves the run where it stood.
	Step(ctx context.Context) (M, error)
	Save(path, note string) error
	Resume(path string) (note string, err error)
}

// Loop trains from where a folder stands to the end of the run. A run that is stopped or killed, any number of times, ends as one that never
// stopped. No two processes may be at one folder.
type Loop[M any] struct {
	Trainer Trainable[M]
	Dir     string // Of the checkpoints; it is made.
	Final   string // The file in Dir that the run leaves at its end; empty for none. A run that has one is done.

	// Start begins a run that has no checkpoint. Nil where the caller has begun it, as a trainer needs whose checkpoints do not say which run
	// they are of.
	Start func() error
	// Resumed is told the number of steps that a checkpoint had done.
	Resumed func(done int)

	Every time.Duration // Between checkpoints: what a kill costs at most. 0 writes one after every step.
	Keep  int           // Checkpoints that are kept; 0 for 2.
	// Note is a pointer to what else the run carries along, as JSON: its curve, say. A checkpoint is written with it and sets it again.
	Note any

	// Saved is called after each checkpoint. Nil for nothing.
	Saved func() error
	// Damaged is told of a checkpoint that cannot be read, where an older one can, and of the name under which it is kept.
	Damaged func(keptAs string, err error)

	Evaluators []Evaluator
	// After is called after each step with what the step reported and what was evaluated behind it, under "evaluator/value".
	After func(step M, evaluated map[string]float64) error
	// Phase is told what the loop is about to do, whenever that changes.
	Phase func(Phase)

	phase Phase
}

// Phase is what a [Loop] is doing.
type Phase string

// The phases of a loop.
const (
	Compiling  Phase = "compiling" // All until the end of the first step, which is no measure of those that follow.
	Training   Phase = "training"
	Evaluating Phase = "evaluating"
)

// Names of checkpoints. Those without a number are of earlier versions, which kept one.
const (
	checkpointPrefix  = "step-"
	checkpointSuffix  = ".safetensors"
	earlierCheckpoint = "checkpoint" + checkpointSuffix
	damagedSuffix     = ".damaged"
)

// Run trains. When ctx ends, Run writes a checkpoint and returns ctx's error; what ctx ends in the middle of an evaluation goes back to the
// checkpoint before, so that After misses no step.
func (l *Loop[M]) Run(ctx context.Context) error {
	l.phase = ""
	l.enter(Compiling)
	final, err := l.begin()
	if err != nil {
		return err
	}
	t := l.Trainer
	savedAt, saved := t.Done(), time.Now()
	for t.Done() < t.Steps() {
		if t.Done() > savedAt && (ctx.Err() != nil || time.Since(saved) > l.Every) {
			if err := l.save(fmt.Sprintf("%s%09d%s", checkpointPrefix, t.Done(), checkpointSuffix)); err != nil {
				return err
			}
			if err := l.prune(); err != nil {
				return err
			}
			savedAt, saved = t.Done(), time.Now()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		step, err := t.Step(ctx)
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			continue // The step has not been taken.
		case err != nil:
			return err
		}
		l.enter(Training)
		evaluated, err := l.evaluate(ctx)
		if err != nil {
			return err
		}
		l.enter(Training)
		if l.After != nil {
			if err := l.After(step, evaluated); err != nil {
				return err
			}
		}
	}
	if l.Final == "" || final {
		return nil
	}
	return l.save(l.Final)
}

// enter tells of a phase.
func (l *Loop[M]) enter(phase Phase) {
	if phase != l.phase && l.Phase != nil {
		l.Phase(phase)
	}
	l.phase = phase
}

// begin sets the run to its last checkpoint or starts it. It tells whether that is the one at its end.
func (l *Loop[M]) begin() (final bool, err error) {
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		return false, err
	}
	if err := atomicfile.Sweep(l.Dir); err != nil {
		return false, err
	}
	checkpoints, err := l.checkpoints()
	if err != nil {
		return false, err
	}
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

// resume sets the run to the last of the checkpoints that can be read, and keeps damaged ones behind it under other names. The error is that of the
// last one, where none can be read.
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

// save writes a file of the folder.
func (l *Loop[M]) save(name string) error {
	path, note := filepath.Join(l.Dir, name), ""
	if l.Note != nil {
		encoded, err := json.Marshal(l.Note)
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		note = string(encoded)
	}
	if err := l.Trainer.Save(path, note); err != nil || l.Saved == nil {
		return err
	}
	return l.Saved()
}

// checkpoints are the names of those in the folder, the last one last.
func (l *Loop[M]) checkpoints() (names []string, err error) {
	entries, err := os.ReadDir(l.Dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name := entry.Name()
		if name == earlierCheckpoint || strings.HasPrefix(name, checkpointPrefix) && strings.HasSuffix(name, checkpointSuffix) {
			names = append(names, name) // "checkpoint" sorts before "step": a numbered one is of a later version, and so later.
		}
	}
	slices.Sort(names)
	return names, nil
}

// prune removes all but the last checkpoints.
func (l *Loop[M]) prune() error {
	keep := l.Keep
	if keep == 0 {
		keep = 2
	}
	return l.remove(keep)
}

// Clean removes all checkpoints but the final file. A caller does so once what the run gave is recorded.
func (l *Loop[M]) Clean() error { return l.remove(0) }

func (l *Loop[M]) remove(keep int) error {
	names, err := l.checkpoints()
	if err != nil {
		return err
	}
	for _, name := range names[:max(0, len(names)-keep)] {
		if name == l.Final {
			continue
		}
		if err := os.Remove(filepath.Join(l.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}
