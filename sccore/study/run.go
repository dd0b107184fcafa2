package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/train"
	"golang.org/x/sync/errgroup"
)

// call is the state that the workers of one call of Spec.Run share.
type call[C comparable, D Data] struct {
	Spec[C, D]
	backend compute.Backend
	options Options
	dir     string                   // out/EXPERIMENT
	opened  map[string]*opened[C, D] // By dataset and seed.
	tasks   map[string]*task[C, D]   // The selected cells and those that they need, by name.
	bar     bar
	summary atomic.Value // The bar's title and its summary, a string.

	mu       sync.Mutex
	warned   map[string]bool // Subjects of warnings: lines, or skipped files.
	diverged []string        // Cells whose loss diverged, with the error.
}

// task is a cell with what is known of it without its own data: the data of any seed tell it, because they have one identity.
type task[C comparable, D Data] struct {
	Cell[C]
	name, hash string
	dir        string // The folder of its files.
	steps      int
	numbers    []Number // With the identity of their data.
	needs      []*task[C, D]
	data       *opened[C, D]

	selected bool
	planned  bool // It runs.
	wanted   bool // It is selected and not recorded yet.
	needed   bool // Another task needs it.
	missing  bool // Another process is running it, or it diverged. Tasks that need it cannot run.
}

// open lists the tasks of the selected cells. It opens each dataset's data of the first seed, whose titles it returns.
func (s Spec[C, D]) open(b compute.Backend, o Options) (c *call[C, D], selected []*task[C, D], titles []string, err error) {
	defer try.Handle(&err)
	if s.Datasets == nil && o.Data != "" {
		return nil, nil, nil, BadOption{fmt.Errorf("--data %s: %s makes its own data", o.Data, s.Name)}
	}
	if o.Cache != "" && (!s.Caches || o.Data == "") {
		why := lo.Ternary(s.Caches, "reads images from a folder only with --data", "does not train on a folder of images")
		return nil, nil, nil, BadOption{fmt.Errorf("--cache %s: %s %s", o.Cache, s.Name, why)}
	}
	names, missing := try.E2(s.datasets(o))
	for _, line := range missing {
		o.Warnf("%s", line)
	}
	cells, err := s.selected(o, names)
	if err != nil {
		return nil, nil, nil, badCells(err)
	}
	c = &call[C, D]{
		Spec: s, backend: b, options: o, dir: Folder(o.Out, s.Name),
		opened: map[string]*opened[C, D]{}, tasks: map[string]*task[C, D]{}, warned: map[string]bool{},
		bar: bar{phases: map[string]string{}},
	}
	for _, cell := range cells {
		shared := c.shared(cell)
		shared.cells = append(shared.cells, cell)
	}
	first := map[string]D{} // The data of the first seed of each dataset.
	for _, cell := range cells {
		data, ok := first[cell.Dataset]
		if !ok {
			data = try.E1(c.dataOf(cell, c.shared(cell)))
			first[cell.Dataset] = data
			if !slices.Contains(titles, data.Title()) {
				titles = append(titles, data.Title())
			}
		}
		t := c.task(cell, data)
		t.selected = true
		selected = append(selected, t)
	}
	return c, selected, titles, nil
}

// task returns the task of a cell, given the data of any seed.
func (c *call[C, D]) task(cell Cell[C], data D) *task[C, D] {
	name := cell.Name()
	if known := c.tasks[name]; known != nil {
		return known
	}
	t := &task[C, D]{
		Cell: cell, name: name, hash: cell.Hash(), dir: filepath.Join(c.dir, c.folder(data, cell)), steps: c.Steps(data, cell),
		numbers: slices.Clone(c.Numbers(data, cell)), data: c.shared(cell),
	}
	c.tasks[name] = t
	for i := range t.numbers {
		t.numbers[i].Data = cmp.Or(t.numbers[i].Data, data.Identity())
	}
	if c.Needs != nil {
		t.needs = lo.Map(c.Needs(cell), func(needed Cell[C], _ int) *task[C, D] { return c.task(needed, data) })
	}
	return t
}

// Run runs the selected cells that are not recorded yet, several at a time. It returns the first error of a cell. A cell whose loss diverges does not
// stop the others.
func (s Spec[C, D]) Run(ctx context.Context, b compute.Backend, o Options) (err error) {
	defer try.Handle(&err)
	c, selected, titles := try.E3(s.open(b, o))
	done := try.E1(readRecorded(c.dir))
	broken := try.E1(BrokenLines(c.dir))
	for _, line := range broken {
		o.Warnf("%s (\"semcon doctor --repair\" moves it aside)", line)
	}
	todo, total, finished := c.plan(selected, done)
	title := fmt.Sprintf("%s (%s) on %s", s.Name, o.Profile, strings.Join(titles, ", "))
	c.bar.Bar = progress.Draw(title, total, time.Second, func(s *progress.State) {
		whole := *s
		whole.Note = "" // It is of one cell.
		c.summary.Store(title + "  " + whole.Summary())
	})
	if o.Bar != nil {
		c.bar.Bar = progress.Several(o.Bar(title, total), c.bar.Bar)
	}
	defer c.bar.Close()
	c.bar.resumed(finished)
	for len(todo) > 0 {
		ready := lo.Reject(todo, func(t *task[C, D], _ int) bool { return lo.Some(todo, t.needs) })
		todo = lo.Without(todo, ready...)
		if len(ready) == 0 {
			return fmt.Errorf("the cells of %s depend on each other in a cycle", s.Name)
		}
		try.E(c.runAll(ctx, ready))
	}
	if len(c.diverged) > 0 {
		return fmt.Errorf("%d of %d runs diverged: %s", len(c.diverged), len(selected), strings.Join(c.diverged, "; "))
	}
	if !slices.ContainsFunc(selected, func(t *task[C, D]) bool { return t.missing }) {
		c.bar.Set(total, fmt.Sprintf("recorded: %d of %[1]d runs", len(selected)))
	}
	return nil
}

// selected lists the cells of all datasets that --only selects.
func (s Spec[C, D]) selected(o Options, datasets []string) (cells []Cell[C], err error) {
	defer try.Handle(&err)
	cells = lo.FlatMap(datasets, func(dataset string, _ int) []Cell[C] { return try.E1(s.Cells(o, dataset)) })
	keep := try.E1(Select(lo.Map(cells, func(c Cell[C], _ int) string { return c.Name() }), s.Parts, o.Only))
	return lo.Filter(cells, func(_ Cell[C], i int) bool { return keep[i] }), nil
}

// plan lists the tasks to run: those that are not recorded, each after those that it needs. It drops the data that no task needs. total and finished are numbers of
// steps.
func (c *call[C, D]) plan(selected []*task[C, D], done recorded) (todo []*task[C, D], total, finished int) {
	var add func(t *task[C, D])
	add = func(t *task[C, D]) {
		if t.planned {
			return
		}
		t.planned = true
		t.data.left++
		for _, needed := range t.needs {
			needed.needed = true
			add(needed)
		}
		todo = append(todo, t)
	}
	for _, t := range selected {
		if t.wanted = !t.complete(done, c.options.Profile); t.wanted {
			add(t)
		} else {
			Tidy(t.dir)
		}
	}
	for _, t := range c.tasks {
		if t.selected || t.planned {
			total += t.steps
		}
		if t.selected && !t.planned {
			finished += t.steps
		}
	}
	for _, shared := range c.opened {
		shared.dropUnused()
	}
	return todo, total, finished
}

// runAll runs tasks that do not need each other. It returns the error of the first worker that fails, which cancels the context of the others.
func (c *call[C, D]) runAll(ctx context.Context, tasks []*task[C, D]) error {
	share := func(t *task[C, D]) string {
		if c.Shares == nil {
			return ""
		}
		return c.Shares(t.Cell)
	}
	q := newQueue(tasks, share)
	group, ctx := errgroup.WithContext(ctx)
	workers := lo.Ternary(c.Serial, 1, min(max(c.options.Parallel, 1), len(tasks)))
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
					t, ok := q.next(last, before)
					if !ok {
						return nil
					}
					if ctx.Err() != nil {
						return ctx.Err()
					}
					if key := share(t); worker != nil && key != last {
						worker.Close()
						worker = nil
					}
					last, before = share(t), true
					if worker, err = c.run(ctx, worker, t); err != nil {
						return fmt.Errorf("%s: %w", t.name, err)
					}
				}
			})
		})
	}
	return group.Wait()
}

// run runs one task, unless another process is running its cell. It makes the worker if it is nil, and returns it for the next task.
func (c *call[C, D]) run(ctx context.Context, worker Worker[C, D], t *task[C, D]) (_ Worker[C, D], err error) {
	defer c.release(t)
	r := &Run[C, D]{call: c, task: t, Context: ctx, Cell: t.Cell, Dir: t.dir, began: time.Now(), watched: progress.Discard}
	defer func() { r.end(err) }()
	for _, needed := range t.needs {
		if needed.missing {
			r.Warnf("skipped %s: it starts from %s, which diverged, was skipped or is being run by another process", t.name, needed.name)
			t.missing = true
			return worker, nil
		}
	}
	if err := os.MkdirAll(r.Dir, 0o777); err != nil {
		return worker, err
	}
	unlock, free, err := filelock.Try(filepath.Join(r.Dir, LockFile))
	if err == nil && !free && c.options.Wait {
		r.Say("waits for the process that is running it")
		unlock, err = filelock.Wait(ctx, filepath.Join(r.Dir, LockFile), nil)
		free = err == nil
	}
	if err != nil {
		return worker, err
	}
	if !free {
		r.Warnf("skipped %s: another process is running it", t.name)
		t.missing = true
		return worker, nil
	}
	defer unlock()
	if err := r.load(); err != nil {
		return worker, err
	}
	defer func() {
		// No later call opens the folder of a complete cell, or sweeps what a kill would leave in it.
		if err != nil || !t.complete(r.recorded, c.options.Profile) {
			err = errors.Join(err, r.saveSeconds())
		}
	}()
	// Another process may have finished the cell since this call read the records.
	if r.recorded, err = readRecorded(c.dir); err != nil {
		return worker, err
	}
	if !t.needed && t.complete(r.recorded, c.options.Profile) {
		Tidy(r.Dir)
		return worker, nil
	}
	var end func(error)
	r.watched, end = Watched(r.Dir, t.name, t.steps, func() string { return c.summary.Load().(string) })
	defer func() { end(err) }()
	if r.Data, err = c.dataOf(t.Cell, t.data); err != nil {
		return worker, err
	}
	r.Phase(progress.Measuring) // A training says when it compiles.
	r.began = time.Now()        // The time of a cell counts its own work only.
	if worker == nil {
		if err := panics.Catch(func() (err error) { worker, err = c.NewWorker(r); return err }); err != nil {
			return nil, err
		}
	}
	err = panics.Catch(func() error { return worker.Run(r) })
	if err != nil && ctx.Err() == nil {
		err = errors.Join(err, r.saveFailure(err))
	}
	if errors.Is(err, train.ErrDiverged) {
		t.missing = true
		c.mu.Lock()
		defer c.mu.Unlock()
		c.diverged = append(c.diverged, fmt.Sprintf("%s: %v", t.name, err))
		return worker, nil
	}
	return worker, err
}

// queue hands out cells to workers. Cells with the same key share a compiled worker. A worker first gets cells with its own key, then the first cell
// whose key no other worker has, and finally cells with other workers' keys.
type queue[T any] struct {
	mu    sync.Mutex
	cells []T
	key   func(T) string
	taken map[string]int // Number of workers per key.
}

func newQueue[T any](cells []T, key func(T) string) *queue[T] {
	return &queue[T]{cells: slices.Clone(cells), key: key, taken: map[string]int{}}
}

// next returns the next cell for a worker. last is the key of the worker's previous cell; before is false if it had none.
func (q *queue[T]) next(last string, before bool) (cell T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.cells) == 0 {
		return cell, false
	}
	i := slices.IndexFunc(q.cells, func(c T) bool { return before && q.key(c) == last })
	if i < 0 {
		if before {
			q.taken[last]--
		}
		i = max(0, slices.IndexFunc(q.cells, func(c T) bool { return q.taken[q.key(c)] == 0 }))
		q.taken[q.key(q.cells[i])]++
	}
	cell = q.cells[i]
	q.cells = slices.Delete(q.cells, i, i+1)
	return cell, true
}
