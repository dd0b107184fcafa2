package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/train"
	"golang.org/x/sync/errgroup"
)

// call is the state that the workers of one call of Spec.Run share.
type call[C comparable, D Data] struct {
	Spec[C, D]
	backend  compute.Backend
	options  Options
	dir      string             // out/EXPERIMENT
	outlines map[string]outline // Of the selected cells and those that they need, by name.
	wanted   map[string]bool    // Selected cells that are not recorded yet, by name.
	needed   map[string]bool    // Cells that other cells need.

	bar bar

	mu       sync.Mutex
	opened   map[dataKey]*opened[C, D]
	warned   map[string]bool // Warnings of opened data.
	skipped  map[string]bool // Skipped files that a warning has named.
	diverged []string        // Cells whose loss diverged, with the error.
	missing  map[string]bool // Cells that another process is running or that diverged. Cells that need them cannot run.
}

// open lists the selected cells and opens each dataset's data of the first seed. The titles are those of the data.
func (s Spec[C, D]) open(b compute.Backend, o Options) (c *call[C, D], cells []Cell[C], titles []string, err error) {
	if s.Datasets == nil && o.Data != "" {
		return nil, nil, nil, BadOption{fmt.Errorf("--data %s: %s makes its own data", o.Data, s.Name)}
	}
	if o.Cache != "" && (!s.Caches || o.Data == "") {
		why := "does not train on a folder of images"
		if s.Caches {
			why = "reads images from a folder only with --data"
		}
		return nil, nil, nil, BadOption{fmt.Errorf("--cache %s: %s %s", o.Cache, s.Name, why)}
	}
	names, missing, err := s.datasets(o)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, line := range missing {
		o.Warnf("%s", line)
	}
	if cells, err = s.selected(o, names); err != nil {
		return nil, nil, nil, BadOption{err}
	}
	c = &call[C, D]{
		Spec: s, backend: b, options: o, dir: Folder(o.Out, s.Name),
		outlines: map[string]outline{}, wanted: map[string]bool{}, needed: map[string]bool{},
		opened: map[dataKey]*opened[C, D]{}, warned: map[string]bool{}, missing: map[string]bool{}, skipped: map[string]bool{},
	}
	for _, name := range names {
		onDataset := slices.DeleteFunc(slices.Clone(cells), func(c Cell[C]) bool { return c.Dataset != name })
		if len(onDataset) == 0 {
			continue
		}
		title, err := c.openFirst(onDataset)
		if err != nil {
			return nil, nil, nil, err
		}
		if !slices.Contains(titles, title) {
			titles = append(titles, title)
		}
	}
	return c, cells, titles, nil
}

// Run runs the selected cells that are not recorded yet, several at a time. It returns the first error of a cell. A cell whose loss diverges does not
// stop the others.
func (s Spec[C, D]) Run(ctx context.Context, b compute.Backend, o Options) error {
	c, cells, titles, err := s.open(b, o)
	if err != nil {
		return err
	}
	done, err := readRecorded(c.dir)
	if err != nil {
		return err
	}
	broken, err := BrokenLines(c.dir)
	if err != nil {
		return err
	}
	for _, line := range broken {
		o.Warnf("%s (\"semcon doctor --repair\" moves it aside)", line)
	}
	todo, total, finished := c.plan(cells, done)
	c.keepFor(todo)
	c.bar.Bar = progress.Discard
	if o.Bar != nil {
		c.bar.Bar = o.Bar(fmt.Sprintf("%s (%s) on %s", s.Name, o.Profile, strings.Join(titles, ", ")), total)
	}
	defer c.bar.Close()
	c.bar.resumed(finished)
	if len(todo) == 0 {
		c.bar.Set(total, fmt.Sprintf("recorded: %d of %d runs", len(cells), len(cells)))
		return nil
	}
	for len(todo) > 0 {
		ready, later := c.ready(todo)
		if len(ready) == 0 {
			return fmt.Errorf("the cells of %s depend on each other in a cycle", s.Name)
		}
		if err := c.runAll(ctx, ready); err != nil {
			return err
		}
		todo = later
	}
	if len(c.diverged) > 0 {
		return fmt.Errorf("%d of %d runs diverged: %s", len(c.diverged), len(cells), strings.Join(c.diverged, "; "))
	}
	return nil
}

// selected lists the cells of all datasets that --only selects.
func (s Spec[C, D]) selected(o Options, datasets []string) (cells []Cell[C], err error) {
	for _, dataset := range datasets {
		more, err := s.Cells(o, dataset)
		if err != nil {
			return nil, err
		}
		cells = append(cells, more...)
	}
	var names []string
	for _, c := range cells {
		names = append(names, c.Name())
	}
	keep, err := Select(names, s.Parts, o.Only)
	if err != nil {
		return nil, err
	}
	var kept []Cell[C]
	for i, c := range cells {
		if keep[i] {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// plan lists the cells to run: those that are not recorded, each after the cells that it needs. total and finished are numbers of steps.
func (c *call[C, D]) plan(cells []Cell[C], done recorded) (todo []Cell[C], total, finished int) {
	planned := map[string]bool{}
	var add func(cell Cell[C])
	add = func(cell Cell[C]) {
		if planned[cell.Name()] {
			return
		}
		planned[cell.Name()] = true
		if c.Needs != nil {
			for _, needed := range c.Needs(cell) {
				c.needed[needed.Name()] = true
				add(needed)
			}
		}
		todo = append(todo, cell)
	}
	for _, cell := range cells {
		if c.complete(done, cell) {
			// A run that was killed just after recording still has its checkpoints.
			_ = train.RemoveCheckpoints(c.folderOf(cell)) // A checkpoint that cannot be removed does no harm.
			continue
		}
		c.wanted[cell.Name()] = true
		add(cell)
	}
	for _, cell := range cells {
		steps := c.outlines[cell.Name()].steps
		total += steps
		if !planned[cell.Name()] {
			finished += steps
		}
	}
	for _, cell := range todo {
		selected := slices.ContainsFunc(cells, func(other Cell[C]) bool { return other.Name() == cell.Name() })
		if !selected { // Another cell needs it.
			total += c.outlines[cell.Name()].steps
		}
	}
	return todo, total, finished
}

// ready splits cells into those that can run now and those that need one of the others first.
func (c *call[C, D]) ready(cells []Cell[C]) (ready, later []Cell[C]) {
	waiting := map[string]bool{}
	for _, cell := range cells {
		waiting[cell.Name()] = true
	}
	for _, cell := range cells {
		if c.Needs != nil && slices.ContainsFunc(c.Needs(cell), func(needed Cell[C]) bool { return waiting[needed.Name()] }) {
			later = append(later, cell)
		} else {
			ready = append(ready, cell)
		}
	}
	return ready, later
}

// runAll runs cells that do not need each other. It returns the error of the first worker that fails, which cancels the context of the others.
func (c *call[C, D]) runAll(ctx context.Context, cells []Cell[C]) error {
	share := func(cell Cell[C]) string {
		if c.Shares == nil {
			return ""
		}
		return c.Shares(cell)
	}
	q := newQueue(cells, share)
	group, ctx := errgroup.WithContext(ctx)
	workers := min(max(c.options.Parallel, 1), len(cells))
	if c.Serial {
		workers = 1
	}
	for range workers {
		group.Go(func() error {
			return panics.Catch(func() (err error) {
				var worker Worker[C, D]
				last, before := "", false
				defer func() {
					if worker != nil {
						worker.Close()
					}
				}()
				for {
					cell, ok := q.next(last, before)
					if !ok {
						return nil
					}
					if ctx.Err() != nil {
						return ctx.Err()
					}
					if key := share(cell); worker != nil && key != last {
						worker.Close()
						worker = nil
					}
					last, before = share(cell), true
					if worker, err = c.runCell(ctx, worker, cell); err != nil {
						return fmt.Errorf("%s: %w", cell.Name(), err)
					}
				}
			})
		})
	}
	return group.Wait()
}

// runCell runs one cell, unless another process is running it. It makes the worker if it is nil, and returns it for the next cell.
func (c *call[C, D]) runCell(ctx context.Context, worker Worker[C, D], cell Cell[C]) (_ Worker[C, D], err error) {
	defer c.release(cell)
	r := &Run[C, D]{call: c, Context: ctx, Cell: cell, Dir: c.folderOf(cell), steps: c.outlines[cell.Name()].steps, began: time.Now()}
	defer func() { r.end(err) }()
	if c.Needs != nil {
		for _, needed := range c.Needs(cell) {
			if c.isMissing(needed) {
				r.Warnf("skipped %s: it starts from %s, which is not finished; run it again later", cell.Name(), needed.Name())
				c.setMissing(cell)
				return worker, nil
			}
		}
	}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return worker, err
	}
	unlock, free, err := filelock.Try(filepath.Join(r.Dir, lockFile))
	if err == nil && !free && c.options.Wait {
		r.Say("waits for the process that is running it")
		unlock, _, err = filelock.Wait(ctx, filepath.Join(r.Dir, lockFile), nil)
		free = err == nil
	}
	if err != nil {
		return worker, err
	}
	if !free {
		r.Warnf("skipped %s: another process is running it", cell.Name())
		c.setMissing(cell)
		return worker, nil
	}
	defer unlock()
	if err := r.load(); err != nil {
		return worker, err
	}
	defer func() {
		// No later call opens the folder of a complete cell, or sweeps what a kill would leave in it.
		if err != nil || !c.complete(r.recorded, cell) {
			err = errors.Join(err, r.saveSeconds())
		}
	}()
	// Another process may have finished the cell since this call read the records.
	if r.recorded, err = readRecorded(c.dir); err != nil {
		return worker, err
	}
	if !c.needed[cell.Name()] && c.complete(r.recorded, cell) {
		return worker, nil
	}
	r.Phase(progress.Compiling)
	if r.Data, err = c.dataOf(cell); err != nil {
		return worker, err
	}
	r.began = time.Now() // The time of a cell is that of its own work.
	if worker == nil {
		if err := panics.Catch(func() (err error) { worker, err = c.NewWorker(r); return err }); err != nil {
			return nil, err
		}
	}
	err = panics.Catch(func() error { return worker.Run(r) })
	if err != nil && ctx.Err() == nil {
		err = errors.Join(err, r.saveFailure(err))
	}
	if errors.Is(err, ErrDiverged) {
		c.setMissing(cell)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.diverged = append(c.diverged, fmt.Sprintf("%s: %v", cell.Name(), err))
		return worker, nil
	}
	return worker, err
}

// complete reports whether all numbers of a cell are recorded.
func (c *call[C, D]) complete(done recorded, cell Cell[C]) bool {
	return complete(done, c.options.Profile, cell, c.outlines[cell.Name()].numbers)
}

// folderOf is the folder of a cell's files.
func (c *call[C, D]) folderOf(cell Cell[C]) string {
	return filepath.Join(c.dir, c.outlines[cell.Name()].folder)
}

func (c *call[C, D]) isMissing(cell Cell[C]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.missing[cell.Name()]
}

func (c *call[C, D]) setMissing(cell Cell[C]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing[cell.Name()] = true
}
