package study

import (
	"slices"
	"sync"

	"github.com/semcon/semcon/internal/panics"
)

// opened is the data that some cells share, from the first of them that runs until the last has run.
type opened[C comparable, D Data] struct {
	cells []Cell[C] // The selected ones.
	once  sync.Once
	data  D
	err   error
	left  int // Number of cells that wait or run.
}

// outline is what is known of a cell without its own data: the data of any seed tell it, because they have one identity.
type outline struct {
	steps   int
	folder  string   // Below the experiment's folder.
	numbers []Number // With the identity of their data.
}

// dataKey identifies the data of a cell. The seed is 0 if all seeds share them.
type dataKey struct {
	dataset string
	seed    int
}

// EachSeed is BySeed of a [Spec] in which each seed has its own data of every dataset.
func EachSeed(string) bool { return true }

func (s Spec[C, D]) dataKey(c Cell[C]) dataKey {
	if s.BySeed == nil || !s.BySeed(c.Dataset) {
		return dataKey{dataset: c.Dataset}
	}
	return dataKey{c.Dataset, c.Seed}
}

// openFirst opens the data of the first seed of a dataset, outlines the cells and those that they need, and returns the data's title. Data of other seeds
// are opened when their first cell runs.
func (c *call[C, D]) openFirst(cells []Cell[C]) (title string, err error) {
	for _, cell := range cells {
		key := c.dataKey(cell)
		if c.opened[key] == nil {
			c.opened[key] = &opened[C, D]{}
		}
		c.opened[key].cells = append(c.opened[key].cells, cell)
	}
	data, err := c.dataOf(cells[0])
	if err != nil {
		return "", err
	}
	var add func(cell Cell[C])
	add = func(cell Cell[C]) {
		if _, ok := c.outlines[cell.Name()]; ok {
			return
		}
		o := outline{steps: c.Steps(data, cell), folder: c.folder(data, cell), numbers: slices.Clone(c.Numbers(data, cell))}
		for i := range o.numbers {
			if o.numbers[i].Data == "" {
				o.numbers[i].Data = data.Identity()
			}
		}
		c.outlines[cell.Name()] = o
		if c.Needs != nil {
			for _, needed := range c.Needs(cell) {
				add(needed)
			}
		}
	}
	for _, cell := range cells {
		add(cell)
	}
	return data.Title(), nil
}

// dataOf returns the data of a cell. The first call for one of the cells that share them opens them; calls meanwhile wait for it.
func (c *call[C, D]) dataOf(cell Cell[C]) (D, error) {
	c.mu.Lock()
	shared := c.opened[c.dataKey(cell)]
	c.mu.Unlock()
	shared.once.Do(func() {
		shared.err = panics.Catch(func() (err error) {
			options := c.options
			options.Warn = c.warnOnce
			if shared.data, err = c.Open(options, cell.Dataset, shared.cells); err != nil {
				return err
			}
			for _, skipped := range shared.data.Skipped() {
				c.warnOnce("skipped " + skipped)
			}
			return nil
		})
	})
	return shared.data, shared.err
}

// keepFor keeps the data that cells need, and drops the others.
func (c *call[C, D]) keepFor(cells []Cell[C]) {
	for _, cell := range cells {
		key := c.dataKey(cell)
		if c.opened[key] == nil { // The cell is not selected, but a selected one needs it.
			c.opened[key] = &opened[C, D]{cells: []Cell[C]{cell}}
		}
		c.opened[key].left++
	}
	for key, shared := range c.opened {
		if shared.left == 0 {
			delete(c.opened, key)
		}
	}
}

// release says that a cell has run. It drops data that no other cell needs.
func (c *call[C, D]) release(cell Cell[C]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := c.dataKey(cell)
	if c.opened[key].left--; c.opened[key].left == 0 {
		delete(c.opened, key)
	}
}

// warnOnce reports a warning that this call has not reported.
func (c *call[C, D]) warnOnce(line string) {
	c.mu.Lock()
	known := c.warned[line]
	c.warned[line] = true
	c.mu.Unlock()
	if !known {
		c.options.Warnf("%s", line)
	}
}
