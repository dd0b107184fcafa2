package experiments

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/siamese"
	"golang.org/x/sync/errgroup"
)

// runEffectAug runs the cells of the study that are not recorded yet, several at a time.
func runEffectAug(ctx context.Context, b compute.Backend, options Options) error {
	sources, err := effectAugSources(options.Profile, options.Data)
	if err != nil {
		return err
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
	for _, source := range sources {
		mine := slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return c.dataset != source.name })
		if len(mine) == 0 {
			continue
		}
		data, err := source.load()
		if err != nil {
			return err
		}
		if options.Warn != nil {
			for _, skipped := range data.skipped() {
				options.Warn("left out " + skipped)
			}
		}
		recorded, err := recordedCells(study.dir, data)
		if err != nil {
			return err
		}
		study.data = append(study.data, data)
		for _, c := range mine {
			steps := c.config.Epochs * (data.train.Len() / c.config.Batch)
			total += steps
			if recorded[c.key()] {
				finished += steps
				continue
			}
			todo = append(todo, c)
		}
	}
	open := options.Bar
	if open == nil {
		open = func(string, int) progress.Bar { return progress.Discard }
	}
	study.bar = open(fmt.Sprintf("%s (%s)", EffectAug, options.Profile), total)
	defer study.bar.Close()
	study.done.Store(int64(finished))
	if len(todo) == 0 {
		study.bar.Set(total, fmt.Sprintf("all %d runs are recorded", len(cells)))
		return nil
	}
	study.bar.Set(finished, fmt.Sprintf("%d of %d runs to go", len(todo), len(cells)))

	queue := make(chan cell, len(todo))
	for _, c := range todo {
		queue <- c
	}
	close(queue)
	group, ctx := errgroup.WithContext(ctx)
	for range min(max(options.Parallel, 1), len(todo)) {
		group.Go(func() error { return study.work(ctx, queue) })
	}
	return group.Wait()
}

// effectAugStudy is what the workers of one call share.
type effectAugStudy struct {
	backend compute.Backend
	options Options
	dir     string // out/effect-aug
	data    []effectAugData

	bar     progress.Bar
	done    atomic.Int64 // Steps, for the bar.
	records sync.Mutex   // Held while appending to runs.jsonl.
}

// work runs cells from queue until it is empty, and keeps the compiled step as long as the cells share it.
func (s *effectAugStudy) work(ctx context.Context, queue <-chan cell) error {
	var trainer *siamese.Trainer
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
			if trainer, err = siamese.NewTrainer(s.backend, data.train, c.config.Settings); err != nil {
				return err
			}
			compiledFor = key
		}
		if err := s.runCell(ctx, trainer, c, data); err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
	}
	return nil
}

func (s *effectAugStudy) dataOf(c cell) effectAugData {
	return s.data[slices.IndexFunc(s.data, func(d effectAugData) bool { return d.name == c.dataset })]
}
