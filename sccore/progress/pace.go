package progress

import "time"

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

// perStep returns the seconds per step, including the time between steps, or 0 if they are unknown. After some time it is the mean of all steps that were
// measured, and not that of the window: the cells of an experiment take turns, and their steps may be of unlike length.
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
