package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// How often a bar draws: on a terminal, where it overwrites itself, and into a log, where each line stays.
const (
	redrawEvery = 200 * time.Millisecond
	logEvery    = 30 * time.Second
)

// New returns a bar that draws on w. On a terminal it is one line that overwrites itself. Elsewhere it prints a line every half a minute and
// one at the end.
func New(w io.Writer, title string, total int) Bar {
	t := newTerminal(w, IsTerminal(w), title, total, time.Now)
	go t.tick()
	return t
}

// tick redraws the bar during long steps, so that its clock advances.
func (t *terminal) tick() {
	for {
		time.Sleep(time.Second)
		t.mu.Lock()
		if t.closed {
			t.mu.Unlock()
			return
		}
		t.drawIfDue(time.Second)
		t.mu.Unlock()
	}
}

// drawIfDue draws if enough time has passed since the last drawing: inPlace on a terminal, logEvery in a log.
func (t *terminal) drawIfDue(inPlace time.Duration) {
	every := logEvery
	if t.inPlace {
		every = inPlace
	}
	if now := t.clock(); now.Sub(t.drawn) >= every {
		t.draw(now)
	}
}

type terminal struct {
	mu      sync.Mutex
	w       io.Writer
	inPlace bool
	clock   func() time.Time
	state   *State
	drawn   time.Time
	stale   bool // The state has changed since.
	closed  bool
}

func newTerminal(w io.Writer, inPlace bool, title string, total int, clock func() time.Time) *terminal {
	now := clock()
	t := &terminal{w: w, inPlace: inPlace, clock: clock, state: NewState(title, total, now), drawn: now}
	if inPlace {
		t.draw(now)
	}
	return t
}

func (t *terminal) Set(done int, note string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.state.Set(done, note, t.clock())
	t.stale = true
	t.drawIfDue(redrawEvery)
}

func (t *terminal) Phase(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.state.Phase(name, t.clock())
	t.drawIfDue(redrawEvery)
}

func (t *terminal) Resumed(steps int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.Resumed(steps)
}

func (t *terminal) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	if t.stale {
		t.draw(t.clock())
	}
	if t.inPlace {
		fmt.Fprintln(t.w)
	}
}

func (t *terminal) draw(now time.Time) {
	t.drawn, t.stale = now, false
	t.state.Tick(now)
	if !t.inPlace {
		fmt.Fprintf(t.w, "%s  %s\n", t.state.Title, t.state.Summary())
		return
	}
	// A line longer than the window must be cut, not wrapped, or the next one appears below it. ?7l switches wrapping off, ?7h on.
	fmt.Fprintf(t.w, "\r\x1b[?7l%s %s %s\x1b[K\x1b[?7h", t.state.Title, blocks(t.state.Fraction(), 20), t.state.Summary())
}

// blocks draws a fraction as a bar with a width in characters.
func blocks(fraction float64, width int) string {
	full := int(fraction * float64(width))
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// IsTerminal reports whether w is a terminal on which a line can overwrite itself.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
