package nb

import (
	"fmt"
	"html"
	"os"
	"sync"
	"time"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/semcon/semcon/sccore/progress"
)

// Progress opens a bar for work of total steps. In a notebook it is one output of the cell, updated in place; in a terminal it is a line. Close
// the bar when the work ends.
func Progress(title string, total int) progress.Bar {
	if !gonbui.IsNotebook {
		return progress.New(os.Stderr, title, total)
	}
	b := &bar{display: NewDisplay(), state: progress.NewState(title, total, time.Now())}
	b.draw()
	go b.tick()
	return b
}

// A bar is redrawn on progress, at most once per redrawEvery to limit the messages to the browser. Without progress it is redrawn once per
// tickEvery, so that its clock advances.
const (
	redrawEvery = 250 * time.Millisecond
	tickEvery   = time.Second
)

type bar struct {
	mu      sync.Mutex
	display *Display
	state   *progress.State
	drawn   time.Time
	closed  bool
}

func (b *bar) Set(done int, note string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.Set(done, note, time.Now())
	b.drawIfDue(redrawEvery)
}

func (b *bar) Phase(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.Phase(name, time.Now())
	b.drawIfDue(redrawEvery)
}

// tick redraws the bar during long steps.
func (b *bar) tick() {
	for closed := false; !closed; {
		time.Sleep(tickEvery)
		b.mu.Lock()
		b.drawIfDue(tickEvery)
		closed = b.closed
		b.mu.Unlock()
	}
}

func (b *bar) drawIfDue(every time.Duration) {
	if !b.closed && time.Since(b.drawn) >= every {
		b.state.Tick(time.Now())
		b.draw()
	}
}

func (b *bar) Resumed(steps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.Resumed(steps)
}

func (b *bar) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.state.Tick(time.Now())
		b.draw()
	}
}

func (b *bar) draw() {
	b.drawn = time.Now()
	b.display.HTML(barHTML(b.state))
}

// barHTML draws the bar with elements and styles that are allowed in untrusted pages, so that it shows everywhere.
func barHTML(s *progress.State) string {
	return fmt.Sprintf(`<div style="white-space:nowrap;overflow:hidden;text-overflow:ellipsis">`+
		`<b>%s</b> <progress style="width:16em;vertical-align:middle" max="1" value="%.4f"></progress> <code>%s</code></div>`,
		html.EscapeString(s.Title), s.Fraction(), html.EscapeString(s.Summary()))
}
