// Package progress shows the progress of long work in a bar that is updated in place, with the rate and the time left.
//
// The work reports to a [Bar], wherever it is drawn: [New] draws on a terminal or into a log, and package notebooks/nb in a notebook, by [Draw].
package progress

import (
	"fmt"
	"io"
	"math"
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

	// Phase names what the work does now, such as [Compiling]. It may be empty. The rate leaves out the time between two steps in which a phase begins.
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
var Discard = Several()

// Several returns a bar that passes everything on to each of several bars.
func Several(bars ...Bar) Bar { return &several{bars} }

type several struct{ bars []Bar }

func (s *several) each(do func(Bar)) {
	for _, b := range s.bars {
		do(b)
	}
}

func (s *several) Set(done int, note string) { s.each(func(b Bar) { b.Set(done, note) }) }
func (s *several) Resumed(steps int)         { s.each(func(b Bar) { b.Resumed(steps) }) }
func (s *several) Phase(name string)         { s.each(func(b Bar) { b.Phase(name) }) }
func (s *several) Close()                    { s.each(Bar.Close) }

// State is the content of a bar, shared by all renderers. It is not safe for concurrent use.
type State struct {
	Title string
	Total int // Number of steps; 0 if unknown.
	Done  int
	Note  string

	phase       string
	opened, now time.Time

	// The speed of steps is measured on a clock that stops while the work does something else.
	at                    time.Time // Of the last report.
	clock                 time.Duration
	reports               int // The first one includes compilation, or the second one if the work resumes.
	samples               []sample
	interrupted, compiled bool          // A phase has begun since the last step, and one of these phases was compilation.
	steps                 int           // Steps that the clock has measured.
	spent                 time.Duration // On these steps and between them, without compilation.
}

// sample is the number of steps done at a time of the clock. Its steps ended between two times.
type sample struct {
	first, last time.Duration
	done        int
}

// NewState starts work of total steps at the given time.
func NewState(title string, total int, now time.Time) *State {
	return &State{Title: title, Total: total, opened: now, now: now}
}

// Set records progress at the given time.
func (s *State) Set(done int, note string, now time.Time) {
	if done > s.Done {
		s.advance(done, now)
	}
	s.Done, s.Note, s.now = done, note, now
}

// Resumed adds steps that an earlier run finished.
func (s *State) Resumed(steps int) {
	s.Done += steps
	s.shift(steps)
}

// shift leaves finished steps out of the rate.
func (s *State) shift(steps int) {
	for i := range s.samples {
		s.samples[i].done += steps
	}
}

// Phase starts a phase at the given time.
func (s *State) Phase(name string, now time.Time) {
	if name != s.phase {
		s.interrupted = true
		s.compiled = s.compiled || name == Compiling || s.phase == Compiling
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
func (s *State) Rate() float64 { return lo.Ternary(s.interrupted, 0, s.rate()) }

// Left returns the time that the remaining steps take, including the time between steps. It is 0 if unknown. It follows from the mean over all measured steps, and
// not from the recent ones: the cells of an experiment take turns, and their steps may be of unlike length.
func (s *State) Left() time.Duration {
	if s.rate() == 0 {
		return 0
	}
	return time.Duration(float64(max(s.Total-s.Done, 0)) * float64(s.spent) / float64(s.steps))
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

// advance records at time now that more steps have ended, for a total of done.
func (s *State) advance(done int, now time.Time) {
	interval := now.Sub(s.at)
	s.at, s.reports = now, s.reports+1
	switch {
	case s.reports < 2:
	case s.reports == 2:
		s.samples = []sample{{done: done}}
	case s.interrupted:
		s.shift(done - s.Done)
		s.spent += lo.Ternary(s.compiled, 0, interval)
	default:
		s.clock, s.spent, s.steps = s.clock+interval, s.spent+interval, s.steps+done-s.Done
		if last := &s.samples[len(s.samples)-1]; s.clock-last.first < sampleWindow {
			last.last, last.done = s.clock, done
		} else {
			s.samples = append(s.samples, sample{s.clock, s.clock, done})
		}
		for len(s.samples) > paceSamples && s.samples[1].last < s.clock-paceWindow {
			s.samples = s.samples[1:]
		}
	}
	s.interrupted, s.compiled = false, false
}

// rate returns the recent steps per second, or 0 if it is unknown.
func (s *State) rate() float64 {
	if len(s.samples) < minSamples {
		return 0
	}
	first, last := s.samples[0], s.samples[len(s.samples)-1]
	steps, span := last.done-first.done, last.last-first.last
	return lo.Ternary(steps < minSteps || span < minSpan, 0, float64(steps)/span.Seconds())
}

// Summary returns the state as text, without the title: "40/100  40%  training  12.3/s  3.3s, 4.9s left  loss 0.31".
func (s *State) Summary() string {
	var parts []string
	if s.Total > 0 {
		parts = append(parts, fmt.Sprintf("%d/%d", s.Done, s.Total), fmt.Sprintf("%d%%", 100*min(max(s.Done, 0), s.Total)/s.Total))
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

// How often a bar draws: on a terminal, where it overwrites itself, and into a log, where each line stays.
const (
	redrawEvery = 200 * time.Millisecond
	tickEvery   = time.Second
	logEvery    = 30 * time.Second
)

// New returns a bar that draws on w. On a terminal it is one line that overwrites itself. Elsewhere it prints a line every half a minute and one at the end.
func New(w io.Writer, title string, total int) Bar {
	b := newTerminal(w, IsTerminal(w), title, total, time.Now)
	go b.tick()
	return b
}

// Draw returns a bar that is drawn by a function: at first, on progress at most once per redraw, and once a second without progress, so that its clock advances.
func Draw(title string, total int, redraw time.Duration, draw func(*State)) Bar {
	b := newBar(title, total, time.Now, redraw, tickEvery, draw)
	b.draw(b.drawn)
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
	for b.change(b.idle, func(time.Time) {}) {
		time.Sleep(tickEvery)
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
		b.stale = true
		b.state.Set(done, note, now)
	})
}

func (b *bar) Phase(name string) {
	b.change(b.redraw, func(now time.Time) { b.state.Phase(name, now) })
}

func (b *bar) Resumed(steps int) {
	b.change(b.redraw, func(time.Time) {
		b.stale = true
		b.state.Resumed(steps)
	})
}

func (b *bar) Close() {
	b.change(math.MaxInt64, func(now time.Time) {
		if b.closed = true; b.stale {
			b.draw(now)
		}
		b.end()
	})
}

// IsTerminal reports whether w is a terminal on which a line can overwrite itself.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}
