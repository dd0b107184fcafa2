package datasets

import (
	"context"
	"iter"
)

// Ahead reads the batches of a run while the caller works on the one before. The zero value is ready.
type Ahead struct {
	next   func() (*Batch, error, bool)
	stop   func()
	seed   uint64
	number int // Of the batch that next returns.
}

// Batch returns the batch of a loader with this number, from 0. It is read already if the call before asked for the one before, of a loader with the same
// seed; call Stop if anything else about the loader has changed.
func (a *Ahead) Batch(ctx context.Context, l Loader, number int) (*Batch, error) {
	if a.next == nil || a.seed != l.Seed || a.number != number {
		a.Stop()
		// The batches that are read ahead belong to the run, not to this call, so they outlive ctx.
		a.next, a.stop = iter.Pull2(l.Batches(context.WithoutCancel(ctx), number))
	}
	batch, err, _ := a.next()
	if err != nil {
		a.Stop()
		return nil, err
	}
	a.seed, a.number = l.Seed, number+1
	return batch, nil
}

// Stop stops reading. The next call of Batch starts again.
func (a *Ahead) Stop() {
	if a.stop != nil {
		a.stop()
	}
	a.next, a.stop = nil, nil
}
