// Package progress shows how far long work has come: one bar, updated in place, with rate and time left.
//
// The work reports to a [Bar] and does not care where it is drawn: [New] draws on a terminal or into a log, package notebooks/nb in
// a notebook's output.
package progress

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Bar follows one piece of work. Its methods may be called from several goroutines.
type Bar interface {
	// Set says that done of the total steps are finished. The note, which may be empty, stands behind the numbers (a loss, a file
	// name). Calling Set for every step is fine: a bar draws a few times a second at most.
	Set(done int, note string)

	// Resumed says that this many more steps turn out to be finished from before, so that the rate leaves them out.
	Resumed(steps int)

	// Phase says what the work does now, such as [Compiling]; empty for nothing worth a word. The time between two steps is no part of the
	// rate if a phase began in it.
	Phase(name string)

	// Close draws the last state. The bar says nothing afterwards.
	Close()
}

// Phases that work of many kinds goes through.
const (
	Compiling = "compiling"
	Decoding  = "decoding"
	Training  = "training"
	Measuring = "measuring"
)

// Discard is a bar that nobody sees.
var Discard Bar = discard{}

type discard struct{}

func (discard) Set(int, string) {}
func (discard) Resumed(int)     {}
func (discard) Phase(string)    {}
func (discard) Close()          {}

// State is what a bar shows. It is the part that every renderer shares.
type State struct {
	Title string
	Total int // In steps; 0 where it is not known.
	Done  int
	Note  string

	phase  string
	opened time.Time
	now    time.Time
	pace   pace
}

// NewState begins a piece of work of total steps at the given time.
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

// Resumed adds steps that were finished before.
func (s *State) Resumed(steps int) {
	s.Done += steps
	s.pace.shift(steps)
}

// Phase begins a phase at the given time.
func (s *State) Phase(name string, now time.Time) {
	if name != s.phase {
		s.pace.interrupt(name == Compiling || s.phase == Compiling)
	}
	s.phase, s.now = name, now
}

// Tick moves the clock on without progress.
func (s *State) Tick(now time.Time) { s.now = now }

// Fraction returns the finished part, from 0 to 1; 0 where the total is not known.
func (s *State) Fraction() float64 {
	if s.Total <= 0 {
		return 0
	}
	return min(1, max(0, float64(s.Done)/float64(s.Total)))
}

// Rate returns the steps per second of late, without compilation; 0 where it is not known, as in the first steps and in a burst.
func (s *State) Rate() float64 {
	if s.pace.interrupted {
		return 0
	}
	return s.pace.rate()
}

// Elapsed returns the time from the opening of the bar to the latest Set, Phase or Tick.
func (s *State) Elapsed() time.Duration { return s.now.Sub(s.opened) }

// Left returns the time that the remaining steps take at the present rate, with what lies between steps; 0 where it is not known.
func (s *State) Left() time.Duration {
	if s.Total <= s.Done {
		return 0
	}
	return time.Duration(float64(s.Total-s.Done) * s.pace.perStep() * float64(time.Second))
}

// Summary returns the state in words, without the title: "40/100  40%  training  12.3/s  3.3s, 4.9s left  loss 0.31".
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

// rateText keeps three digits and turns slow work round: half a step a second reads "2s each".
func rateText(rate float64) string {
	switch {
	case rate >= 100:
		return fmt.Sprintf("%.0f/s", rate)
	case rate >= 1:
		return fmt.Sprintf("%.3g/s", rate)
	}
	return durationText(time.Duration(float64(time.Second)/rate)) + " each"
}

// durationText rounds as a person would say it.
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
