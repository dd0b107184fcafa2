// Package progress shows the progress of long work in a bar that is updated in place, with the rate and the time left.
//
// The work reports to a [Bar], wherever it is drawn: [New] draws on a terminal or into a log, and package notebooks/nb in a notebook, by [Draw].
package progress

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/samber/lo"
	"golang.org/x/term"
)

// Bar shows the progress of one piece of work. It is safe for concurrent use.
type Bar interface {
	// Set reports that done of the total steps are finished. The note follows the numbers, such as a loss or a file name; it may be empty.
	// Calling Set for every step is fine, because a bar draws at most a few times per second.
	Set(done int, note string)

	// Resumed reports that this many more steps were finished by an earlier run. The rate leaves them out.
	Resumed(steps int)

	// Phase names what the work does now, such as [Compiling]. It may be empty. The rate leaves out the time between two steps in which a
	// phase begins.
	Phase(name string)

	// Close draws the final state. The bar draws nothing afterwards.
	Close()
}

// Phases of many kinds of work.
const (
	Compiling = "compiling"
	Training  = "training"
	Measuring = "measuring"
)

// Discard is a bar that shows nothing.
var Discard Bar = discard{}

type discard struct{}

func (discard) Set(int, string) {}
func (discard) Resumed(int)     {}
func (discard) Phase(string)    {}
func (discard) Close()          {}

// Several returns a bar that passes everything on to each of several bars.
func Several(bars ...Bar) Bar { return several(bars) }

type several []Bar

func (s several) each(do func(Bar)) {
	for _, b := range s {
		do(b)
	}
}

func (s several) Set(done int, note string) { s.each(func(b Bar) { b.Set(done, note) }) }
func (s several) Resumed(steps int)         { s.each(func(b Bar) { b.Resumed(steps) }) }
func (s several) Phase(name string)         { s.each(func(b Bar) { b.Phase(name) }) }
func (s several) Close()                    { s.each(Bar.Close) }

// State is the content of a bar, shared by all renderers. It is not safe for concurrent use.
type State struct {
	Title string
	Total int // Number of steps; 0 if unknown.
	Done  int
	Note  string

	phase  string
	opened time.Time
	now    time.Time
	pace   pace
}

// NewState starts work of total steps at the given time.
func NewState(title string, total int, now time.Time) *State {
	return &State{Title: title, Total: total, opened: now, now: now}
}

// Set records progress at the given time.
func (s *State) Set(done int, note string, now time.Time) {
	if done > s.Done {
		s.pace.advance(done, done-s.Done, now)
	}
	s.Done, s.Note, s.now = done, note, now
}

// Resumed adds steps that an earlier run finished.
func (s *State) Resumed(steps int) {
	s.Done += steps
	s.pace.shift(steps)
}

// Phase starts a phase at the given time.
func (s *State) Phase(name string, now time.Time) {
	if name != s.phase {
		s.pace.interrupted = true
		s.pace.compiled = s.pace.compiled || name == Compiling || s.phase == Compiling
	}
	s.phase, s.now = name, now
}

// Tick advances the clock without progress.
func (s *State) Tick(now time.Time) { s.now = now }

// Fraction returns the finished part, from 0 to 1, or 0 if the total is unknown.
func (s *State) Fraction() float64 {
	return lo.Ternary(s.Total <= 0, 0, min(1, max(0, float64(s.Done)/float64(max(s.Total, 1)))))
}

// Rate returns the recent steps per second, without compilation. It is 0 if unknown, as in the first steps, in a burst and when a phase has begun.
func (s *State) Rate() float64 { return lo.Ternary(s.pace.interrupted, 0, s.pace.rate()) }

// Left returns the time that the remaining steps take at the present rate, including the time between steps. It is 0 if unknown.
func (s *State) Left() time.Duration {
	return time.Duration(float64(max(s.Total-s.Done, 0)) * s.pace.perStep() * float64(time.Second))
}

// Summary returns the state as text, without the title: "40/100  40%  training  12.3/s  3.3s, 4.9s left  loss 0.31".
func (s *State) Summary() string {
	var parts []string
	if s.Total > 0 {
		parts = append(parts, fmt.Sprintf("%d/%d", s.Done, s.Total), fmt.Sprintf("%d%%", int(100*s.Fraction())))
	} else {
		parts = append(parts, strconv.Itoa(s.Done))
	}
	if s.phase != "" {
		parts = append(parts, s.phase)
	}
	if rate := s.Rate(); rate > 0 {
		parts = append(parts, rateText(rate))
	}
	spent := durationText(s.now.Sub(s.opened)) // To the last Set, Phase or Tick.
	if left := s.Left(); left > 0 {
		spent += ", " + durationText(left) + " left"
	}
	parts = append(parts, spent)
	if s.Note != "" {
		parts = append(parts, s.Note)
	}
	return strings.Join(parts, "  ")
}

// rateText keeps three digits. Rates below 1 become a time per step: half a step per second reads "2s each".
func rateText(rate float64) string {
	switch {
	case rate >= 100:
		return fmt.Sprintf("%.0f/s", rate)
	case rate >= 1:
		return fmt.Sprintf("%.3g/s", rate)
	}
	return durationText(time.Duration(float64(time.Second)/rate)) + " each"
}

// durationText rounds a duration for reading.
func durationText(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// The rate covers the last half minute, or the last five samples if steps are slow. It needs at least three steps in three samples and two
// seconds, because a batch of steps that end at the same time says nothing about the speed.
const (
	paceWindow   = 30 * time.Second
	paceSamples  = 5
	minSteps     = 3
	minSamples   = 3
	minSpan      = 2 * time.Second
	sampleWindow = 250 * time.Millisecond // Steps that end within this time share a sample.
)

// pace measures the speed of steps. Its clock stops while the work does something else.
type pace struct {
	advances    int // Number of reports so far. The first one includes compilation, or the second one if the work resumes.
	at          time.Time
	clock       time.Duration
	samples     []sample
	interrupted bool // A phase has begun since the last step.
	compiled    bool // One of these phases was compilation.

	steps int           // Steps that the clock has measured.
	spent time.Duration // On these steps and between them, without compilation.
}

// sample is the number of steps done at a time of the clock.
type sample struct {
	first, last time.Duration // Its steps ended between these times.
	done        int
}

// advance records at time now that the given number of steps have ended, for a total of done.
func (p *pace) advance(done, steps int, now time.Time) {
	interval := now.Sub(p.at)
	p.at = now
	p.advances++
	switch {
	case p.advances < 2:
	case p.advances == 2:
		p.samples = []sample{{done: done}}
	case p.interrupted:
		p.shift(steps)
		if !p.compiled {
			p.spent += interval
		}
	default:
		p.clock, p.spent, p.steps = p.clock+interval, p.spent+interval, p.steps+steps
		p.add(done)
	}
	p.interrupted, p.compiled = false, false
}

func (p *pace) add(done int) {
	if last := &p.samples[len(p.samples)-1]; p.clock-last.first < sampleWindow {
		last.last, last.done = p.clock, done
	} else {
		p.samples = append(p.samples, sample{p.clock, p.clock, done})
	}
	for len(p.samples) > paceSamples && p.samples[1].last < p.clock-paceWindow {
		p.samples = p.samples[1:]
	}
}

// shift leaves finished steps out of the rate.
func (p *pace) shift(steps int) {
	for i := range p.samples {
		p.samples[i].done += steps
	}
}

// rate returns the steps per second, or 0 if it is unknown.
func (p *pace) rate() float64 {
	if len(p.samples) < minSamples {
		return 0
	}
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	steps, span := last.done-first.done, last.last-first.last
	if steps < minSteps || span < minSpan {
		return 0
	}
	return float64(steps) / span.Seconds()
}

// perStep returns the seconds per step, including the time between steps, or 0 if they are unknown. It is the mean over all measured steps, and not over the window:
// the cells of an experiment take turns, and their steps may be of unlike length.
func (p *pace) perStep() float64 {
	if p.rate() == 0 {
		return 0
	}
	return p.spent.Seconds() / float64(p.steps)
}

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
	b.change(b.redraw, func(time.Time) { b.state.Resumed(steps) })
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
