package train

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/panics"
)

// feed makes the batches of a run ahead. The zero value is ready.
type feed struct {
	ready  <-chan fed
	stop   func()
	seed   uint64
	number int // Of the part that comes next.
}

type fed struct {
	batch Batch
	err   error
}

// batch returns a part of a run's batches, on the device. It is ready already if the call before asked for the part before.
func (t *Trainer[M]) batch(ctx context.Context, number int) (Batch, error) {
	if !t.task.Ahead {
		for batch, err := range t.task.Batches(ctx, t.at.Seed, number) {
			return batch, err
		}
		return Batch{}, io.ErrUnexpectedEOF
	}
	f := &t.feed
	if f.ready == nil || f.seed != t.at.Seed || f.number != number {
		t.Rewind()
		// What is read ahead belongs to the run, not to this call, so it outlives ctx.
		running, cancel := context.WithCancel(context.WithoutCancel(ctx))
		ready, stop := ahead(t.placed(t.task.Batches(running, t.at.Seed, number)))
		t.feed = feed{ready, func() { cancel(); stop() }, t.at.Seed, number}
	}
	select {
	case next := <-f.ready:
		if next.err != nil {
			t.Rewind()
		}
		f.number++
		return next.batch, next.err
	case <-ctx.Done(): // The next call takes the batch.
		return Batch{}, ctx.Err()
	}
}

// placed moves batches to the devices while it makes those that follow.
func (t *Trainer[M]) placed(batches iter.Seq2[Batch, error]) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		ready, stop := ahead(batches)
		defer stop()
		for next := range ready {
			if next.err == nil {
				if next.err = t.upload(next.batch.Inputs); next.err != nil {
					Free(next.batch.Inputs)
					next.batch = Batch{}
				}
			}
			if !yield(next.batch, next.err) {
				return
			}
		}
	}
}

// ahead makes the next batch while the one before is in use. After the last comes an error. stop waits until none is made any more, and frees what nobody takes.
func ahead(batches iter.Seq2[Batch, error]) (ready <-chan fed, stop func()) {
	made, stopped := make(chan fed), make(chan struct{})
	offer := func(next fed) (taken bool) {
		select {
		case made <- next:
			return true
		case <-stopped:
			Free(next.batch.Inputs)
			return false
		}
	}
	go func() {
		defer close(made)
		err := panics.Catch(func() error {
			for batch, err := range batches {
				if !offer(fed{batch, err}) || err != nil {
					return nil
				}
			}
			return io.ErrUnexpectedEOF
		})
		if err != nil {
			offer(fed{err: err})
		}
	}()
	return made, func() {
		close(stopped)
		for next := range made { // Until it is closed.
			Free(next.batch.Inputs)
		}
	}
}

// Rewind stops making batches ahead, and waits until none is made any more. The next step starts again. Call it before what batches depend on changes.
func (t *Trainer[M]) Rewind() {
	if t.feed.stop != nil {
		t.feed.stop()
	}
	t.feed = feed{}
}

// upload moves the tensors among the inputs of a part to the devices, so that the step need not.
func (t *Trainer[M]) upload(inputs []any) error {
	for i, input := range inputs {
		switch input.(type) {
		case *tensors.Tensor, Bytes:
			placed, err := place(t.backend, input, t.task.Inputs[i].Divided)
			if err != nil {
				return err
			}
			inputs[i] = placed
		}
	}
	return nil
}

// Free frees the tensors among a step's inputs. Go's garbage collector does not see a device's memory, and comes too late.
func Free(inputs []any) {
	for _, input := range inputs {
		if tensor, ok := input.(onDevice); ok {
			if err := tensor.FinalizeAll(); err != nil {
				panic(err)
			}
		}
	}
}

// Bytes are an input in Go's memory, row-major. They move to the device from there, without a tensor between, which would be a copy of all images of a step.
type Bytes struct {
	Values     []uint8
	Dimensions []int
}

// Placed is an input that is on each device already, and stays there from step to step.
type Placed struct{ input onDevice }

// Place moves the whole of an input to each device of a backend.
func Place(b compute.Backend, input *tensors.Tensor) (Placed, error) {
	placed, err := place(b, input, false)
	return Placed{placed}, err
}

// Close frees the device's memory.
func (p Placed) Close() error {
	if p.input == nil {
		return nil
	}
	if err := p.input.FinalizeAll(); err != nil {
		return fmt.Errorf("freeing an input: %w", err)
	}
	return nil
}
