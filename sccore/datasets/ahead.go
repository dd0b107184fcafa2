package datasets

import (
	"context"

	"github.com/semcon/semcon/internal/panics"
)

// Ahead reads and prepares the batches of a run while the caller works on the one before. T is what a batch is prepared into. The zero value is ready.
type Ahead[T any] struct {
	ready  chan prepared[T]
	cancel context.CancelFunc
	seed   uint64
	number int // Of the batch that is prepared next.
}

type prepared[T any] struct {
	value T
	err   error
}

// Batch returns what prepare makes of the batch of a loader with this number, from 0. It is ready already if the call before asked for the one before, of a
// loader with the same seed; call Stop if anything else about the loader, or what prepare depends on, changes. prepare is called from one goroutine.
func (a *Ahead[T]) Batch(ctx context.Context, l Loader, number int, prepare func(*Batch) (T, error)) (T, error) {
	if a.ready == nil || a.seed != l.Seed || a.number != number {
		a.Stop()
		// The batches that are read ahead belong to the run, not to this call, so they outlive ctx.
		a.start(context.WithoutCancel(ctx), l, number, prepare)
	}
	var batch prepared[T]
	select {
	case batch = <-a.ready:
	case <-ctx.Done(): // The next call takes the batch.
		a.seed, a.number = l.Seed, number
		return batch.value, ctx.Err()
	}
	if batch.err != nil {
		a.Stop()
		return batch.value, batch.err
	}
	a.seed, a.number = l.Seed, number+1
	return batch.value, nil
}

func (a *Ahead[T]) start(ctx context.Context, l Loader, from int, prepare func(*Batch) (T, error)) {
	ctx, a.cancel = context.WithCancel(ctx)
	ready := make(chan prepared[T])
	a.ready = ready
	go func() {
		defer close(ready)
		for batch, err := range l.Batches(ctx, from) {
			next := prepared[T]{err: err}
			if err == nil {
				next.err = panics.Catch(func() (err error) { next.value, err = prepare(batch); return err })
			}
			select {
			case ready <- next:
			case <-ctx.Done():
				return
			}
			if next.err != nil {
				return
			}
		}
	}()
}

// Stop stops reading, and waits until nothing is prepared any more. The next call of Batch starts again.
func (a *Ahead[T]) Stop() {
	if a.cancel == nil {
		return
	}
	a.cancel()
	for range a.ready { // Until it is closed.
	}
	a.ready, a.cancel = nil, nil
}
