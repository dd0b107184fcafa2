package effectaug

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/train"
)

// runEffectAug runs the cells of the study that are not recorded yet, several at a time.
func runEffectAug(ctx context.Context, b compute.Backend, options Options) error {
	sources, err := effectAugSources(options.Profile, options.Data)
	if err != nil {
		return err
	}
	if options.Profile == Smoke && options.Data != "" {
		options.warn("the smoke profile is the same everywhere: synthetic objects, and nothing of --data %s", options.Data)
	}
	var cells []cell
	for _, source := range sources {
		more, err := effectAugCells(options, source.name)
		if err != nil {
			return BadOption{err}
		}
		cells = append(cells, more...)
	}
	if cells, err = selected(cells, effectAugParts, options.Only); err != nil {
		return BadOption{err}
	}

	// Data is read only for cells that are left to run, and once.
	study := &effectAugStudy{backend: b, options: options, dir: folderOf(options.Out, EffectAug)}
	var todo []cell
	total, finished := 0, 0
	recorded, err := recordedOn(study.dir)
	if err != nil {
		return err
	}
	for _, source := range sources {
		mine := slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return c.dataset != source.name })
		if len(mine) == 0 {
			continue
		}
		data, err := source.load()
		if err != nil {
			return err
		}
		for _, skipped := range data.skipped() {
			study.options.warn("left out %s", skipped)
		}
		study.data = append(study.data, data)
		for _, c := range mine {
			steps := c.config.Epochs * (data.train.Len() / c.config.Batch)
			total += steps
			if recorded[c.key(data)] {
				finished += steps
				// A kill between recording and this leaves it.
				if err := os.Remove(filepath.Join(study.dir, c.folder(data), checkpointFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
				continue
			}
			todo = append(todo, c)
		}
	}
	var titles []string
	for _, data := range study.data {
		titles = append(titles, data.title)
	}
	study.bar = options.bar(fmt.Sprintf("%s (%s) on %s", EffectAug, options.Profile, strings.Join(titles, " and ")), total)
	defer study.bar.Close()
	study.done.Store(int64(finished))
	if len(todo) == 0 {
		study.bar.Set(total, fmt.Sprintf("recorded: %d of %d runs", len(cells), len(cells)))
		return nil
	}
	study.bar.Set(finished, fmt.Sprintf("%d of %d runs to go", len(todo), len(cells)))

	if err := fromQueue(ctx, options.Parallel, todo, study.work); err != nil {
		return err
	}
	if len(study.diverged) > 0 {
		return fmt.Errorf("%d of %d runs diverged: %s", len(study.diverged), len(cells), strings.Join(study.diverged, "; "))
	}
	return nil
}

// effectAugStudy is what the workers of one call share.
type effectAugStudy struct {
	backend compute.Backend
	options Options
	dir     string // out/effect-aug
	data    []effectAugData

	bar  progress.Bar
	done atomic.Int64 // Steps, for the bar.

	mu       sync.Mutex
	diverged []string // Runs whose loss left the numbers, and where.
}

// found moves the bar over steps that this process does not take.
func (s *effectAugStudy) found(steps int) {
	s.done.Add(int64(steps))
	s.bar.Found(steps)
}

// work runs cells from queue until it is empty, and keeps the compiled step as long as the cells share it.
func (s *effectAugStudy) work(ctx context.Context, queue <-chan cell) error {
	var trainer *methods.Trainer
	var compiledFor string
	defer func() {
		if trainer != nil {
			trainer.Close()
		}
	}()
	for c := range queue {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		data := s.dataOf(c)
		if key := fmt.Sprintf("%s %+v", c.dataset, c.config.Settings); key != compiledFor {
			if trainer != nil {
				trainer.Close()
			}
			var err error
			if trainer, err = methods.NewTrainer(s.backend, data.train, c.config.Settings); err != nil {
				return err
			}
			compiledFor = key
		}
		err := s.runCell(ctx, trainer, c, data)
		if errors.Is(err, train.ErrDiverged) { // The other runs are none the worse for it.
			s.mu.Lock()
			s.diverged = append(s.diverged, fmt.Sprintf("%s: %v", c.name(), err))
			s.mu.Unlock()
			s.found(trainer.Steps() - trainer.Done())
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
	}
	return nil
}

func (s *effectAugStudy) dataOf(c cell) effectAugData {
	return s.data[slices.IndexFunc(s.data, func(d effectAugData) bool { return d.name == c.dataset })]
}
