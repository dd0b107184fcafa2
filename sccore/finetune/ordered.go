package finetune

import (
	"context"
	"iter"
	"runtime"
	"sync"
)

// job makes one batch. It takes a place for each image that it reads, which bounds the images that are read at once.
type job[B any] func(ctx context.Context, places chan struct{}) (B, error)

// ordered yields the batches from step from on, in order and without end, while up to ahead further ones are made. jobOf is called for one step after the
// other; the jobs run concurrently. workers is the number of places, 0 for one per processor. After an error it ends. The error is that of ctx or of a job.
func ordered[B any](ctx context.Context, from, workers, ahead int, jobOf func(step int) job[B]) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		type result struct {
			batch B
			err   error
		}
		if workers == 0 {
			workers = runtime.GOMAXPROCS(0)
		}
		places := make(chan struct{}, workers)         // One for each image that is being read.
		queue := make(chan chan result, max(ahead, 1)) // The batches in order.
		all.Go(func() {
			for step := from; ; step++ {
				makeBatch, ready := jobOf(step), make(chan result, 1)
				select {
				case queue <- ready:
				case <-ctx.Done():
					return
				}
				all.Go(func() {
					batch, err := makeBatch(ctx, places)
					ready <- result{batch, err}
				})
			}
		})
		for {
			select {
			case ready := <-queue:
				r := <-ready
				if !yield(r.batch, r.err) || r.err != nil {
					return
				}
			case <-ctx.Done():
				var none B
				yield(none, ctx.Err())
				return
			}
		}
	}
}

// eachImage calls read for the images 0 to n-1 of a batch, each when it has a place. The error is the first one in the order of the images, whichever worker
// came to it first.
func eachImage(ctx context.Context, n int, places chan struct{}, read func(i int) error) error {
	faults := make([]error, n)
	var images sync.WaitGroup
	for i := range n {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		images.Go(func() {
			defer func() { <-places }()
			faults[i] = read(i)
		})
	}
	images.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, err := range faults {
		if err != nil {
			return err
		}
	}
	return nil
}
