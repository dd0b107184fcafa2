package progress

import (
	"math"
	"strings"
	"testing"
	"time"
)

// clock is a clock that the test advances.
type clock struct{ now time.Time }

func (c *clock) read() time.Time         { return c.now }
func (c *clock) forward(d time.Duration) { c.now = c.now.Add(d) }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

// steps sets count steps of equal duration, one after the other, and returns the number done.
func steps(s *State, c *clock, done, count int, each time.Duration) int {
	for range count {
		c.forward(each)
		done++
		s.Set(done, "", c.now)
	}
	return done
}

func TestNumbers(t *testing.T) {
	c := newClock()
	s := NewState("train", 1000, c.now)
	want := func(when, want string) {
		t.Helper()
		if got := s.Summary(); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	s.Phase(Compiling, c.now)
	c.forward(60 * time.Second)
	s.Tick(c.now)
	want("before the first step", "0/1000  0%  compiling  1m00s")
	s.Phase(Training, c.now)
	done := steps(s, c, 0, 10, 100*time.Millisecond)
	want("in the first steps", "10/1000  1%  training  1m01s")
	done = steps(s, c, done, 490, 100*time.Millisecond)
	s.Set(done, "loss 0.31", c.now)
	want("under way", "500/1000  50%  training  10/s  1m50s, 50s left  loss 0.31")
	steps(s, c, done, 500, 100*time.Millisecond)
	want("finished", "1000/1000  100%  training  10/s  2m40s")
}

// TestABurstHasNoRate reports all images of a batch at the same time.
func TestABurstHasNoRate(t *testing.T) {
	c := newClock()
	s := NewState("features", 64, c.now)
	c.forward(3 * time.Second)
	done := steps(s, c, 0, 16, time.Microsecond)
	if got, want := s.Summary(), "16/64  25%  3.0s"; got != want {
		t.Errorf("one batch: %q, want %q", got, want)
	}
	for range 2 {
		c.forward(2 * time.Second)
		done = steps(s, c, done, 16, time.Microsecond)
	}
	if rate := s.Rate(); !(math.Abs(rate-8) <= 0.01) {
		t.Errorf("batches of 16 images in two seconds come at %g/s, want 8", rate)
	}
}

// TestCompilationIsNotAStep resumes work. A graph compiles for a minute, and later another one. Neither counts in the rate or in the time left.
// Evaluations between steps count in the time left.
func TestCompilationIsNotAStep(t *testing.T) {
	c := newClock()
	s := NewState("train", 2000, c.now)
	s.Resumed(900)
	s.Set(900, "", c.now)
	c.forward(time.Minute)
	done := steps(s, c, 900, 3, 100*time.Millisecond)
	if s.Rate() != 0 || s.Left() != 0 {
		t.Errorf("after three steps %g/s, %s left", s.Rate(), s.Left())
	}
	done = steps(s, c, done, 97, 100*time.Millisecond)
	check := func(when string, left time.Duration) {
		t.Helper()
		if rate := s.Rate(); !(math.Abs(rate-10) <= 0.01) || (s.Left()-left).Abs() > time.Second {
			t.Errorf("%s: %g/s, %s left; want 10/s, %s", when, rate, s.Left(), left)
		}
	}
	check("under way", 100*time.Second)
	s.Phase(Compiling, c.now)
	c.forward(time.Minute)
	if s.Tick(c.now); s.Rate() != 0 {
		t.Errorf("while it compiles: %g/s", s.Rate())
	}
	s.Phase(Training, c.now)
	done = steps(s, c, done, 100, 100*time.Millisecond)
	check("compiled again", 90*time.Second)
	s.Phase(Measuring, c.now)
	c.forward(20 * time.Second)
	s.Phase(Training, c.now)
	steps(s, c, done, 100, 100*time.Millisecond)
	check("measured", 134*time.Second) // 80 of them for 800 steps; and 20 were measured for the 300 steps before.
}

// TestTheTimeLeftIsOfAllKindsOfSteps alternates between cells of fast and of slow steps, half of each.
func TestTheTimeLeftIsOfAllKindsOfSteps(t *testing.T) {
	c := newClock()
	const cells, each = 40, 50
	s, done := NewState("cells", cells*each, c.now), 0
	for cell := range cells {
		done = steps(s, c, done, each, []time.Duration{100 * time.Millisecond, 2 * time.Second}[cell%2])
		if left, want := s.Left(), time.Duration(cells*each-done)*1050*time.Millisecond; cell >= 5 && cell < cells-1 && (left < want*3/4 || left > want*5/4) {
			t.Errorf("after %d cells %s left, want about %s", cell+1, left, want)
		}
	}
}

// TestTheRateIsOfLate checks that the rate soon follows when steps become slower.
func TestTheRateIsOfLate(t *testing.T) {
	c := newClock()
	s := NewState("train", 10_000, c.now)
	done := steps(s, c, 0, 1000, 10*time.Millisecond)
	steps(s, c, done, 40, time.Second)
	if rate := s.Rate(); !(math.Abs(rate-1) <= 0.01) {
		t.Errorf("%g/s, want 1", rate)
	}
}

func TestTotalNotKnown(t *testing.T) {
	c := newClock()
	s := NewState("read", 0, c.now)
	steps(s, c, 0, 6, 2*time.Second)
	s.Set(6, "a.zip", c.now)
	if got, want := s.Summary(), "6  2.0s each  12s  a.zip"; got != want {
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
	// It is drawn when it opens and five times in its second of work. The last of these shows the end.
	if n := strings.Count(out.String(), "\r"); n != 6 {
		t.Errorf("drawn %d times, want 6", n)
	}
	if !strings.HasSuffix(out.String(), "train ████████████████████ 100/100  100%  1.0s\x1b[K\x1b[?7h\n") {
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

// TestATerminalShowsThePhase also checks that a log reports long compilation.
func TestATerminalShowsThePhase(t *testing.T) {
	for _, inPlace := range []bool{true, false} {
		c := newClock()
		var out strings.Builder
		bar := newTerminal(&out, inPlace, "train", 90, c.read)
		bar.Phase(Compiling)
		c.forward(40 * time.Second)
		bar.change(bar.idle, func(time.Time) {})
		if !strings.Contains(out.String(), "0/90  0%  compiling  40s") {
			t.Errorf("in place %v: %q", inPlace, out.String())
		}
	}
}

// TestTheEndShowsWhatWasDoneBefore: the last line counts steps of earlier calls, which may be all that there is.
func TestTheEndShowsWhatWasDoneBefore(t *testing.T) {
	var out strings.Builder
	bar := newTerminal(&out, false, "train", 90, newClock().read)
	bar.Resumed(90)
	bar.Close()
	if !strings.HasPrefix(out.String(), "train  90/90  100%") {
		t.Errorf("a log got %q", out.String())
	}
}
