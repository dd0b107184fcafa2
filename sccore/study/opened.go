package study

import (
	"fmt"
	"slices"
	"sync"

	"github.com/semcon/semcon/internal/panics"
)

// opened is the data that the cells of a seed share, from the first of them that runs until the last has run.
type opened[C comparable, D Data] struct {
	cells []Cell[C] // The selected ones.
	once  sync.Once
	data  D
	err   error
	left  int // Number of tasks that wait or run.
}

// dropUnused drops data that no task needs.
func (o *opened[C, D]) dropUnused() {
	if o.left == 0 {
		o.data = *new(D)
	}
}

// dataKey identifies the data of a cell.
type dataKey struct {
	dataset string
	seed    int
}

// shared returns what holds the data of a cell.
func (c *call[C, D]) shared(cell Cell[C]) *opened[C, D] {
	key := dataKey{cell.Dataset, cell.Seed}
	if c.opened[key] == nil {
		c.opened[key] = &opened[C, D]{}
	}
	return c.opened[key]
}

// dataOf returns the data of a cell. The first call for one of the cells that share them opens them; calls meanwhile wait for it.
func (c *call[C, D]) dataOf(cell Cell[C], shared *opened[C, D]) (D, error) {
	shared.once.Do(func() {
		shared.err = panics.Catch(func() (err error) {
			options := c.options
			options.Warn = func(line string) { c.warnOnce(line, line) }
			cells := shared.cells
			if cells == nil { // The cell is not selected, but a selected one needs it.
				cells = []Cell[C]{cell}
			}
			if shared.data, err = c.Open(options, cell.Dataset, cells); err != nil {
				return err
			}
			for _, skipped := range shared.data.Skipped() {
				c.warnOnce("skipped "+skipped, "skipped "+skipped)
			}
			return nil
		})
	})
	return shared.data, shared.err
}

// release says that a task has run.
func (c *call[C, D]) release(t *task[C, D]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.data.left--
	t.data.dropUnused()
}

// warnOnce reports a warning unless this call has reported one of the same subject.
func (c *call[C, D]) warnOnce(subject, line string) {
	c.mu.Lock()
	known := c.warned[subject]
	c.warned[subject] = true
	c.mu.Unlock()
	if !known {
		c.options.Warnf("%s", line)
	}
}

// SharesOf returns the number of shares that real data are cut into, of which each seed has its own: those asked for, or 1, with a warning, if there are fewer
// of what is cut, such as "images", so that every seed has all.
func (o Options) SharesOf(dataset string, count int, what string, shares int) int {
	if count >= shares {
		return shares
	}
	o.Warnf("%s is too small for %d shares: every seed has all of its %s", dataset, shares, what)
	return 1
}

// IdentityOfShares identifies in records data that are cut into shares, of whatever seed.
func IdentityOfShares(identity string, shares int) string {
	if shares == 1 {
		return identity
	}
	return fmt.Sprintf("%s; of each %d shares, one for a seed", identity, shares)
}

// CheckSeeds returns an error if real data, cut into shares of which each seed has its own, have none for one of the seeds.
func CheckSeeds(seeds, shares int) error {
	if shares > 1 && seeds > shares {
		return fmt.Errorf("%d seeds and %d shares: each seed needs a share of its own; --set shares=%[1]d, or 1 to give all to every seed", seeds, shares)
	}
	return nil
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
