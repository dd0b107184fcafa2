package progress

import (
	"strings"
	"testing"
	"time"
)

// clock is a time that the test moves.
type clock struct{ now time.Time }

func (c *clock) read() time.Time         { return c.now }
func (c *clock) forward(d time.Duration) { c.now = c.now.Add(d) }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func TestNumbers(t *testing.T) {
	c := newClock()
	s := NewState("train", 1000, c.now)
	c.forward(13 * time.Second) // Compilation: not part of the rate.
	s.Set(1, "", c.now)
	if got, want := s.Numbers(), "1/1000  0%  13s"; got != want {
		t.Errorf("first step: %q, want %q", got, want)
	}
	c.forward(10 * time.Second)
	s.Set(401, "loss 0.31", c.now)
	if got, want := s.Numbers(), "401/1000  40%  40/s  23s, 15s left  loss 0.31"; got != want {
		t.Errorf("under way: %q, want %q", got, want)
	}
	s.Set(1000, "", c.now)
	if got, want := s.Numbers(), "1000/1000  100%  99.9/s  23s"; got != want {
		t.Errorf("finished: %q, want %q", got, want)
	}
}

func TestResumedWorkCountsOnlyItsOwnSteps(t *testing.T) {
	c := newClock()
	s := NewState("train", 1000, c.now)
	s.Set(900, "", c.now)
	c.forward(5 * time.Second)
	s.Set(950, "", c.now)
	if s.Rate() != 10 || s.Left() != 5*time.Second {
		t.Errorf("rate %v, left %v; want 10 a second and 5s", s.Rate(), s.Left())
	}
}

func TestTotalNotKnown(t *testing.T) {
	c := newClock()
	s := NewState("read", 0, c.now)
	s.Set(0, "", c.now)
	c.forward(4 * time.Second)
	s.Set(2, "a.zip", c.now)
	if got, want := s.Numbers(), "2  2.0s each  4.0s  a.zip"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		300 * time.Millisecond: "0.3s", 12 * time.Second: "12s", 80 * time.Second: "1m20s", 3*time.Hour + 4*time.Minute: "3h04m",
	} {
		if got := durationText(d); got != want {
			t.Errorf("%v reads %q, want %q", d, got, want)
		}
	}
}

func TestTerminalOverwritesOneLine(t *testing.T) {
	c := newClock()
	var out strings.Builder
	bar := newTerminal(&out, true, "train", 100, c.read)
	for step := 1; step <= 100; step++ {
		c.forward(10 * time.Millisecond)
		bar.Set(step, "")
	}
	bar.Close()
	bar.Close()
	bar.Set(7, "after the end")
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d line ends, want the closing one only", n)
	}
	// Drawn when it opened and five times in its second of work; the last of these showed the end.
	if n := strings.Count(out.String(), "\r"); n != 6 {
		t.Errorf("drawn %d times, want 6", n)
	}
	if !strings.HasSuffix(out.String(), "train ████████████████████ 100/100  100%  100/s  1.0s\x1b[K\x1b[?7h\n") {
		t.Errorf("ends with %q", out.String()[strings.LastIndex(out.String(), "\r"):])
	}
}

func TestLogGetsFewLines(t *testing.T) {
	c := newClock()
	var out strings.Builder
	bar := newTerminal(&out, false, "train", 90, c.read)
	for step := 1; step <= 90; step++ {
		c.forward(time.Second)
		bar.Set(step, "")
	}
	bar.Close()
	want := "train  30/90  33%  1/s  30s, 1m00s left\ntrain  60/90  66%  1/s  1m00s, 30s left\ntrain  90/90  100%  1/s  1m30s\n"
	if out.String() != want {
		t.Errorf("log:\n%swant:\n%s", out.String(), want)
	}
}

func TestNewOnAPipeIsALog(t *testing.T) {
	var out strings.Builder
	bar := New(&out, "copy", 2)
	bar.Set(2, "done")
	bar.Close()
	if strings.ContainsAny(out.String(), "\r\x1b") || !strings.HasPrefix(out.String(), "copy  2/2  100%") {
		t.Errorf("a log got %q", out.String())
	}
}

// TestWhatIsFoundHasNoRate resumes: the steps of an earlier process fill the bar and do not count as fast ones of this.
func TestWhatIsFoundHasNoRate(t *testing.T) {
	begun := time.Unix(0, 0)
	s := NewState("work", 1000, begun)
	s.Set(100, "", begun)
	s.Found(500)
	s.Set(610, "", begun.Add(10*time.Second))
	if s.Done != 610 || s.Rate() != 1 {
		t.Errorf("done %d at %g/s, want 610 at 1/s", s.Done, s.Rate())
	}
}
