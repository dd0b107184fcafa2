// Package progress shows the progress of long work in a bar that is updated in place, with the rate and the time left.
//
// The work reports to a [Bar], wherever it is drawn: [New] draws on a terminal or into a log, and package notebooks/nb in a notebook, by [Draw].
package progress

import (
	"fmt"
	"strconv"
	"strings"
	"time"
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
	Decoding  = "decoding"
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
		s.pace.interrupt(name == Compiling || s.phase == Compiling)
	}
	s.phase, s.now = name, now
}

// Tick advances the clock without progress.
func (s *State) Tick(now time.Time) { s.now = now }

// Fraction returns the finished part, from 0 to 1, or 0 if the total is unknown.
func (s *State) Fraction() float64 {
	if s.Total <= 0 {
		return 0
	}
	return min(1, max(0, float64(s.Done)/float64(s.Total)))
}

// Rate returns the recent steps per second, without compilation. It is 0 if unknown, as in the first steps and in a burst.
func (s *State) Rate() float64 {
	if s.pace.interrupted {
		return 0
	}
	return s.pace.rate()
}

// Elapsed returns the time from the opening of the bar to the last Set, Phase or Tick.
func (s *State) Elapsed() time.Duration { return s.now.Sub(s.opened) }

// Left returns the time that the remaining steps take at the present rate, including the time between steps. It is 0 if unknown.
func (s *State) Left() time.Duration {
	if s.Total <= s.Done {
		return 0
	}
	return time.Duration(float64(s.Total-s.Done) * s.pace.perStep() * float64(time.Second))
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
	spent := durationText(s.Elapsed())
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

	steps   int           // Steps that the clock has measured.
	between time.Duration // Time between these steps, without compilation.
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
			p.between += interval
		}
	default:
		p.clock += interval
		p.steps += steps
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

// interrupt records that a phase begins. compiles tells whether it is compilation.
func (p *pace) interrupt(compiles bool) {
	p.interrupted = true
	p.compiled = p.compiled || compiles
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

// perStep returns the seconds per step, including the time between steps, or 0 if they are unknown. After some time it is the mean over all measured steps, and
// not over the window: the cells of an experiment take turns, and their steps may be of unlike length.
func (p *pace) perStep() float64 {
	rate := p.rate()
	if rate == 0 {
		return 0
	}
	if p.clock > 2*paceWindow {
		return (p.clock + p.between).Seconds() / float64(p.steps)
	}
	return 1/rate + p.between.Seconds()/float64(p.steps)
}
