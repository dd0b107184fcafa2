package train

import "time"

// Workload is what one step of a [Workloader] computes.
type Workload struct {
	Images   int
	FLOPs    float64 // Floating-point operations of products, forward and backward; 0 if nobody counts them.
	BFloat16 bool    // Products are in bfloat16.
}

// Workloader is an objective that counts what a step computes.
type Workloader interface{ Workload() Workload }

// Usage is where the time of a [Trainer] went.
type Usage struct {
	Compiling time.Duration
	Steps     int           // Steps whose time counts: all but the trainer's first one, which warms up.
	Stepping  time.Duration // Time of these steps.
	Waiting   time.Duration // The part of it in which the step waited for its inputs.
}

// Since returns the usage after an earlier one. Compiling stays: it is done once for all runs.
func (u Usage) Since(before Usage) Usage {
	return Usage{u.Compiling, u.Steps - before.Steps, u.Stepping - before.Stepping, u.Waiting - before.Waiting}
}

// Usage is where the time went since the trainer was made.
func (t *Trainer[M]) Usage() Usage { return t.usage }

// Workload is what a step computes, all 0 if the objective does not count it.
func (t *Trainer[M]) Workload() Workload {
	if o, ok := t.objective.(Workloader); ok {
		return o.Workload()
	}
	return Workload{}
}

// stepped counts a step that took so long, and the part of it that it waited.
func (t *Trainer[M]) stepped(took time.Duration) {
	if t.warm {
		t.usage.Steps++
		t.usage.Stepping += took
		t.usage.Waiting += t.waited
	}
	t.warm, t.waited = true, 0
}
