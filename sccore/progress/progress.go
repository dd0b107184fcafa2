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

	// Found says that this many more steps turn out to be finished from before, so that the rate leaves them out.
	Found(steps int)

	// Close draws the last state. The bar says nothing afterwards.
	Close()
}

// Discard is a bar that nobody sees.
var Discard Bar = discard{}

type discard struct{}

func (discard) Set(int, string) {}
func (discard) Found(int)       {}
func (discard) Close()          {}

// State is what a bar shows. It is the part that every renderer shares.
type State struct {
	Title string
	Total int // In steps; 0 where it is not known.
	Done  int
	Note  string

	opened    time.Time
	base      int       // Done at the first Set.
	baseSince time.Time // When that was.
	now       time.Time
}

// NewState begins a piece of work of total steps at the given time.
func NewState(title string, total int, now time.Time) *State {
	return &State{Title: title, Total: total, opened: now, now: now}
}

// Set records progress at the given time.
func (s *State) Set(done int, note string, now time.Time) {
	if s.baseSince.IsZero() {
		s.base, s.baseSince = max(s.base, done), now
	}
	s.Done, s.Note, s.now = done, note, now
}

// Found adds steps that were finished before.
func (s *State) Found(steps int) { s.Done, s.base = s.Done+steps, s.base+steps }

// Tick moves the clock on without progress.
func (s *State) Tick(now time.Time) { s.now = now }

// Fraction returns the finished part, from 0 to 1; 0 where the total is not known.
func (s *State) Fraction() float64 {
	if s.Total <= 0 {
		return 0
	}
	return min(1, max(0, float64(s.Done)/float64(s.Total)))
}

// Rate returns the steps per second since the first Set, which leaves the compilation before the first step out; 0 where it is not
// known yet.
func (s *State) Rate() float64 {
	elapsed := s.now.Sub(s.baseSince).Seconds()
	if s.baseSince.IsZero() || elapsed <= 0 {
		return 0
	}
	return max(0, float64(s.Done-s.base)/elapsed)
}

// Elapsed returns the time from the opening of the bar to the latest Set or Tick.
func (s *State) Elapsed() time.Duration { return s.now.Sub(s.opened) }

// Left returns the time that the remaining steps take at the present rate; 0 where it is not known.
func (s *State) Left() time.Duration {
	rate := s.Rate()
	if rate == 0 || s.Total <= s.Done {
		return 0
	}
	return time.Duration(float64(s.Total-s.Done) / rate * float64(time.Second))
}

// Numbers returns the state in words, without the title: "40/100  40%  12.3/s  3.3s, 4.9s left  loss 0.31".
func (s *State) Numbers() string {
	var parts []string
	if s.Total > 0 {
		parts = append(parts, fmt.Sprintf("%d/%d", s.Done, s.Total), fmt.Sprintf("%d%%", int(100*s.Fraction())))
	} else {
		parts = append(parts, strconv.Itoa(s.Done))
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
