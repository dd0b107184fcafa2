package study

import (
	"slices"
	"sync"
)

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
	i := -1
	if before {
		i = slices.IndexFunc(q.cells, func(c T) bool { return q.key(c) == last })
		if i < 0 {
			q.taken[last]--
		}
	}
	fresh := i < 0
	if fresh {
		if i = slices.IndexFunc(q.cells, func(c T) bool { return q.taken[q.key(c)] == 0 }); i < 0 {
			i = 0
		}
	}
	cell = q.cells[i]
	q.cells = slices.Delete(q.cells, i, i+1)
	if fresh {
		q.taken[q.key(cell)]++
	}
	return cell, true
}
