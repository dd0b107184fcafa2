package experiments

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// fromQueue has workers take cells in their order, each from the queue until it is empty or its context ends: as many as parallel says, one if that is not
// positive. The error is that of the first worker to fail, which ends the context of the others.
func fromQueue[C any](ctx context.Context, parallel int, cells []C, work func(ctx context.Context, queue <-chan C) error) error {
	queue := make(chan C, len(cells))
	for _, c := range cells {
		queue <- c
	}
	close(queue)
	group, ctx := errgroup.WithContext(ctx)
	for range min(max(parallel, 1), len(cells)) {
		group.Go(func() error { return work(ctx, queue) })
	}
	return group.Wait()
}
