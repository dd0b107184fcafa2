package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// How often a bar draws: on a terminal, where it overwrites itself, and into a log, where each line stays.
const (
	redrawEvery = 200 * time.Millisecond
	tickEvery   = time.Second
	logEvery    = 30 * time.Second
)

// New returns a bar that draws on w. On a terminal it is one line that overwrites itself. Elsewhere it prints a line every half a minute and
// one at the end.
func New(w io.Writer, title string, total int) Bar {
	b := newTerminal(w, IsTerminal(w), title, total, time.Now)
	go b.tick()
	return b
}

// Draw returns a bar that is drawn by a function: at first, on progress at most once per redraw, and once a second without progress, so that its clock advances.
func Draw(title string, total int, redraw time.Duration, draw func(*State)) Bar {
	b := newBar(title, total, time.Now, redraw, tickEvery, draw)
	b.draw(time.Now())
	go b.tick()
	return b
}

// bar draws a state.
type bar struct {
	redraw, idle time.Duration // The least time between two drawings, with progress and without.
	drawState    func(*State)
	end          func() // Ends the drawings.
	clock        func() time.Time

	mu     sync.Mutex
	state  *State
	drawn  time.Time
	stale  bool // The state has changed since.
	closed bool
}

func newBar(title string, total int, clock func() time.Time, redraw, idle time.Duration, draw func(*State)) *bar {
	now := clock()
	return &bar{redraw: redraw, idle: idle, drawState: draw, end: func() {}, clock: clock, state: NewState(title, total, now), drawn: now}
}

func newTerminal(w io.Writer, inPlace bool, title string, total int, clock func() time.Time) *bar {
	if !inPlace {
		return newBar(title, total, clock, logEvery, logEvery, func(s *State) { fmt.Fprintf(w, "%s  %s\n", s.Title, s.Summary()) })
	}
	b := newBar(title, total, clock, redrawEvery, tickEvery, func(s *State) {
		const width = 20
		full := int(s.Fraction() * width)
		// A line longer than the window must be cut, not wrapped, or the next one appears below it. ?7l switches wrapping off, ?7h on.
		fmt.Fprintf(w, "\r\x1b[?7l%s %s%s %s\x1b[K\x1b[?7h", s.Title, strings.Repeat("█", full), strings.Repeat("░", width-full), s.Summary())
	})
	b.end = func() { fmt.Fprintln(w) }
	b.draw(b.drawn)
	return b
}

// tick redraws the bar during long steps.
func (b *bar) tick() {
	for closed := false; !closed; {
		time.Sleep(tickEvery)
		closed = !b.change(b.idle, func(time.Time) {})
	}
}

// change changes the state and draws it if enough time has passed since the last drawing. It returns false if the bar is closed.
func (b *bar) change(every time.Duration, to func(now time.Time)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	now := b.clock()
	if to(now); now.Sub(b.drawn) >= every {
		b.draw(now)
	}
	return true
}

func (b *bar) draw(now time.Time) {
	b.drawn, b.stale = now, false
	b.state.Tick(now)
	b.drawState(b.state)
}

func (b *bar) Set(done int, note string) {
	b.change(b.redraw, func(now time.Time) {
		b.state.Set(done, note, now)
		b.stale = true
	})
}

func (b *bar) Phase(name string) {
	b.change(b.redraw, func(now time.Time) { b.state.Phase(name, now) })
}

func (b *bar) Resumed(steps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.Resumed(steps)
}

func (b *bar) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	if b.closed = true; b.stale {
		b.draw(b.clock())
	}
	b.end()
}

// IsTerminal reports whether w is a terminal on which a line can overwrite itself.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}
