package datasets

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"

	"github.com/semcon/semcon/internal/panics"
	"golang.org/x/sync/errgroup"
)

// Source is a set of unlabelled images that are read one at a time, so that it may be larger than memory.
type Source interface {
	// Len returns the number of images.
	Len() int
	// Read writes image i, 0 ≤ i < Len, into the top left corner of pixels, [size, size, 3], sets the rest to black, and returns the size
	// of the image there. It is safe for concurrent use.
	Read(i int, pixels []uint8, size int) (Size, error)
}

// Loader reads batches. Half of each batch is object-centric images, which show one object each, and half is scenes: the paper's mixture
// of ImageNet and COCO ("Datasets"), where image-level losses see the object-centric half only. If one source is nil, the whole batch
// comes from the other.
//
// Each source is shuffled anew in each of its epochs. A batch depends only on the seed and the step: a run resumes from the step alone, and
// the number of workers does not change a batch.
type Loader struct {
	Objects, Scenes Source
	BatchSize       int    // Images per batch; even if there are two sources.
	ImageSize       int    // Height and width in pixels that images are padded to. Sources shrink larger images.
	Seed            uint64 // Seed of the shuffling.
	Workers         int    // Images decoded at once; 0 for one per processor.

	// Broken says what happens if an image cannot be read: the loader stops with an error, or takes the next image of the source.
	Broken Broken

	// Positive returns an object-centric image that is a positive of the given one at a step, such as one of its nearest neighbours. It
	// may be nil. Otherwise a batch also holds a positive for each of its object-centric images.
	Positive func(step int, image int32) int32
}

// Batch is the input of one training step: Objects object-centric images, then Scenes scenes, then Positives, one for each object-centric
// image in the same order.
type Batch struct {
	Step                       int
	Objects, Scenes, Positives int

	Pixels []uint8 // [images, ImageSize, ImageSize, 3], each image in the top left corner.
	Sizes  []Size  // [images], the size of each image before padding.

	// Images, [images], identifies each image by its index in its source; the scenes' indices follow those of all object-centric images.
	// Views are drawn from this number, with the step as the epoch.
	Images []int32

	Skipped []Skipped // Images that could not be read and were replaced.
}

// maxBroken is the number of broken images in a row that is an error even if broken images are skipped: the disk may be failing.
const maxBroken = 100

// Check returns an error that names the first invalid setting.
func (l Loader) Check() error {
	switch {
	case l.Objects == nil && l.Scenes == nil:
		return errors.New("the loader has no source of images")
	case l.Objects != nil && l.Objects.Len() < 1 || l.Scenes != nil && l.Scenes.Len() < 1:
		return errors.New("a source of images is empty")
	case l.BatchSize < 1 || l.Objects != nil && l.Scenes != nil && l.BatchSize%2 != 0:
		return fmt.Errorf("batch size %d, want at least 1, and an even number with two sources", l.BatchSize)
	case l.ImageSize < 1:
		return fmt.Errorf("image size %d, want at least 1 pixel", l.ImageSize)
	case l.Workers < 0:
		return fmt.Errorf("%d workers, want at least 0", l.Workers)
	case l.Positive != nil && l.Objects == nil:
		return errors.New("positives without object-centric images")
	}
	return nil
}

// Batches yields the batches from the given step on, without end. After an error it ends. The error is that of ctx, or one line that names a file.
func (l Loader) Batches(ctx context.Context, from int) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		orders := [2]order{{seed: l.Seed}, {seed: l.Seed + 1}}
		for step := from; ; step++ {
			var batch *Batch
			err := l.Check()
			if err == nil {
				err = panics.Catch(func() (err error) { batch, err = l.read(ctx, step, &orders); return err })
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(batch, nil) {
				return
			}
		}
	}
}

// order is the order of a source's images.
type order struct {
	seed  uint64
	epoch int
	perm  []int
}

// at returns the image at a position, counted from the start of the first epoch, in a source of n images.
func (o *order) at(position, n int) int {
	if epoch := position / n; o.perm == nil || o.epoch != epoch {
		o.epoch = epoch
		o.perm = rand.New(rand.NewPCG(o.seed, uint64(epoch))).Perm(n)
	}
	return o.perm[position%n]
}

// read reads the batch of one step.
func (l Loader) read(ctx context.Context, step int, orders *[2]order) (*Batch, error) {
	b := &Batch{Step: step}
	switch {
	case l.Scenes == nil:
		b.Objects = l.BatchSize
	case l.Objects == nil:
		b.Scenes = l.BatchSize
	default:
		b.Objects, b.Scenes = l.BatchSize/2, l.BatchSize/2
	}
	for i := range b.Objects {
		b.Images = append(b.Images, int32(orders[0].at(step*b.Objects+i, l.Objects.Len())))
	}
	for i := range b.Scenes {
		b.Images = append(b.Images, int32(l.objects()+orders[1].at(step*b.Scenes+i, l.Scenes.Len())))
	}
	if err := l.readFrom(ctx, b, 0); err != nil || l.Positive == nil {
		return b, err
	}
	// Positives come second because a broken image may have been replaced.
	b.Positives = b.Objects
	for _, image := range b.Images[:b.Objects] {
		b.Images = append(b.Images, l.Positive(step, image))
	}
	return b, l.readFrom(ctx, b, b.Objects+b.Scenes)
}

// readFrom reads the images of a batch from a position on.
func (l Loader) readFrom(ctx context.Context, b *Batch, from int) error {
	size, n := l.ImageSize*l.ImageSize*3, len(b.Images)
	b.Pixels = append(b.Pixels, make([]uint8, n*size-len(b.Pixels))...)
	b.Sizes = append(b.Sizes, make([]Size, n-len(b.Sizes))...)
	skipped, faults := make([][]Skipped, n), make([]error, n)
	var workers errgroup.Group
	workers.SetLimit(l.workers())
	for i := from; i < n; i++ {
		workers.Go(func() error {
			if faults[i] = ctx.Err(); faults[i] == nil {
				faults[i] = panics.Catch(func() (err error) {
					skipped[i], err = l.readInto(b, i, b.Pixels[i*size:(i+1)*size])
					return err
				})
			}
			return nil
		})
	}
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	// The error is the first one of the batch, whichever worker came to it first.
	for i := range faults {
		if faults[i] != nil {
			return faults[i]
		}
		b.Skipped = append(b.Skipped, skipped[i]...)
	}
	return nil
}

// readInto reads the image at a position of the batch, or the next one that can be read.
func (l Loader) readInto(b *Batch, position int, pixels []uint8) (skipped []Skipped, err error) {
	source, first := l.Objects, 0
	if int(b.Images[position]) >= l.objects() {
		source, first = l.Scenes, l.objects()
	}
	for {
		b.Sizes[position], err = source.Read(int(b.Images[position])-first, pixels, l.ImageSize)
		if err == nil || l.Broken == FailOnBroken {
			return skipped, err
		}
		if len(skipped) == maxBroken {
			return nil, fmt.Errorf("%d images in a row cannot be read, the last: %w", maxBroken, err)
		}
		one := Skipped{fmt.Sprintf("image %d", b.Images[position]), err.Error()}
		if folder, ok := source.(*ImageFolder); ok {
			one = folder.Skip(int(b.Images[position])-first, err)
		}
		skipped = append(skipped, one)
		b.Images[position] = int32(first + (int(b.Images[position])-first+1)%source.Len())
	}
}

// objects returns the number of object-centric images.
func (l Loader) objects() int {
	if l.Objects == nil {
		return 0
	}
	return l.Objects.Len()
}

func (l Loader) workers() int {
	if l.Workers == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return l.Workers
}

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
