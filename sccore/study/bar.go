package study

import (
	"sync"

	"github.com/semcon/semcon/sccore/progress"
)

// bar is a progress bar that several cells share.
type bar struct {
	progress.Bar
	mu     sync.Mutex
	done   int
	phases map[string]string // The phase of each running cell.
	shown  string
}

func (b *bar) move(steps int, note string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += steps
	b.Set(b.done, note)
}

func (b *bar) resumed(steps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += steps
	b.Resumed(steps)
}

// setPhase sets the phase of a cell; empty when it ends. The bar shows training while any cell trains, because its rate then counts training steps.
func (b *bar) setPhase(cell, phase string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if phase == "" {
		delete(b.phases, cell)
	} else {
		if b.phases == nil {
			b.phases = map[string]string{}
		}
		b.phases[cell] = phase
	}
	show := phase
	for _, other := range b.phases {
		if other == progress.Training || show == "" {
			show = other
		}
	}
	if show != b.shown {
		b.Phase(show)
		b.shown = show
	}
}
