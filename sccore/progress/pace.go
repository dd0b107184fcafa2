package progress

import "time"

// A rate is that of the last half minute, and of five samples at least where steps are slower than that. There is none before
// three steps in three samples and two seconds: a batch of steps that all end at once says nothing.
const (
	paceWindow   = 30 * time.Second
	paceSamples  = 5
	minSteps     = 3
	minSamples   = 3
	minSpan      = 2 * time.Second
	sampleWindow = 250 * time.Millisecond // Steps that end this close together share a sample.
)

// pace follows how fast steps are done. Its clock stands still while something else than steps happens.
type pace struct {
	advances    int // Steps reported so far. The first takes compilation with it; in work that resumes, the second does.
	at          time.Time
	clock       time.Duration
	samples     []sample
	interrupted bool // A phase has begun since the last step.
	compiled    bool // One of those that have is compilation.

	steps int           // Those that the clock has run for.
	aside time.Duration // What happened between them, without compilation.
}

// A sample is what was done at a time of the clock.
type sample struct {
	first, last time.Duration // The steps of the sample ended between these.
	done        int
}

// advance records that steps more are finished at time now, which makes done.
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
			p.aside += interval
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

// shift says that steps which are done did not take the clock's time.
func (p *pace) shift(steps int) {
	for i := range p.samples {
		p.samples[i].done += steps
	}
}

// interrupt says that something else than a step happens.
func (p *pace) interrupt(compiles bool) {
	p.interrupted = true
	p.compiled = p.compiled || compiles
}

// rate returns the steps per second, 0 where it is not known.
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

// perStep returns the seconds of a step and of what lies between two, 0 where they are not known.
func (p *pace) perStep() float64 {
	rate := p.rate()
	if rate == 0 {
		return 0
	}
	return 1/rate + p.aside.Seconds()/float64(p.steps)
}
