package datasets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/samber/lo"
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

// Loader reads batches. Half of each batch is object-centric images, which show one object each, and half is scenes: the paper's mixture of ImageNet and COCO
// ("Datasets"), where image-level losses see the object-centric half only. If one source is nil, the whole batch comes from the other.
//
// Each source is shuffled anew in each of its epochs. A batch depends only on the seed and the step: a run resumes from the step alone, and
// the number of workers does not change a batch. In the place of an image that cannot be read comes the next one of its source.
type Loader struct {
	Objects, Scenes Source
	BatchSize       int    // Images per batch; even if there are two sources.
	ImageSize       int    // Height and width in pixels that images are padded to. Sources shrink larger images.
	Seed            uint64 // Seed of the shuffling.
	Workers         int    // Images decoded at once; 0 for one per processor.

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

	// Images, [images], identifies each image by its index in its source; the scenes' indices follow the indices of all object-centric images.
	// Views are drawn from this number, with the step as the epoch.
	Images []int32

	Skipped []Skipped // Images that could not be read and were replaced.
}

// maxBroken is the number of broken images in a row that is an error: the disk may be failing.
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

// Batches yields the batches from the given step on, without end. After an error it ends. The error is the error of ctx, or one line that names a file.
func (l Loader) Batches(ctx context.Context, from int) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		orders := [2]Order{{Seed: l.Seed}, {Seed: l.Seed + 1}}
		for step := from; ; step++ {
			var batch *Batch
			err := l.Check()
			if err == nil {
				err = panics.Catch(func() (err error) { batch, err = l.read(ctx, step, &orders); return err })
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// Order is a random order of images, anew in each epoch.
type Order struct {
	Seed  uint64
	epoch int
	perm  []int
}

// At returns the image at a position, counted from the start of the first epoch, in a source of n images, and its epoch.
func (o *Order) At(position, n int) (epoch, image int) {
	if epoch := position / n; o.perm == nil || o.epoch != epoch {
		o.epoch = epoch
		o.perm = rand.New(rand.NewPCG(o.Seed, uint64(epoch))).Perm(n)
	}
	return o.epoch, o.perm[position%n]
}

// read reads the batch of one step.
func (l Loader) read(ctx context.Context, step int, orders *[2]Order) (*Batch, error) {
	b := &Batch{Step: step}
	b.Objects, b.Scenes = PerBatch(l.BatchSize, l.Objects, l.Scenes)
	for i := range b.Objects {
		_, image := orders[0].At(step*b.Objects+i, l.Objects.Len())
		b.Images = append(b.Images, int32(image))
	}
	for i := range b.Scenes {
		_, image := orders[1].At(step*b.Scenes+i, l.Scenes.Len())
		b.Images = append(b.Images, int32(Count(l.Objects)+image))
	}
	if err := l.readFrom(ctx, b, 0); err != nil || l.Positive == nil {
		return b, err
	}
	// Positives come second because a broken image may have been replaced.
	b.Positives = b.Objects
	b.Images = append(b.Images, lo.Map(b.Images[:b.Objects], func(image int32, _ int) int32 { return l.Positive(step, image) })...)
	return b, l.readFrom(ctx, b, b.Objects+b.Scenes)
}

// readFrom reads the images of a batch from a position on.
func (l Loader) readFrom(ctx context.Context, b *Batch, from int) error {
	size, n := l.ImageSize*l.ImageSize*3, len(b.Images)
	if b.Pixels == nil { // Once for positives, too, which come later.
		most := n
		if l.Positive != nil {
			most += b.Objects
		}
		b.Pixels = make([]uint8, most*size)
	}
	b.Pixels = b.Pixels[:n*size]
	b.Sizes = append(b.Sizes, make([]Size, n-len(b.Sizes))...)
	skipped := make([][]Skipped, n)
	err := EachImage(ctx, n-from, l.Workers, func(i int) (err error) {
		i += from
		skipped[i], err = l.readInto(b, i, b.Pixels[i*size:(i+1)*size])
		return err
	})
	b.Skipped = append(b.Skipped, slices.Concat(skipped...)...)
	return err
}

// EachImage calls read for the images 0 to n-1, so many at once, 0 for one per processor. It begins no further image after an error or a panic, which is an
// error too. The error is the first one in the order of the images, whichever worker came to it first.
func EachImage(ctx context.Context, n, workers int, read func(i int) error) error {
	workers = cmp.Or(workers, runtime.GOMAXPROCS(0))
	faults := make([]error, n)
	var failed atomic.Bool
	var group errgroup.Group
	group.SetLimit(workers)
	for i := 0; i < n && ctx.Err() == nil && !failed.Load(); i++ {
		group.Go(func() error {
			if faults[i] = panics.Catch(func() error { return read(i) }); faults[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	group.Wait()
	return cmp.Or(ctx.Err(), cmp.Or(faults...))
}

// Faults is [EachImage] for images of which some may be damaged: it reads them all, and returns the error of each in faults. err is that of ctx.
func Faults(ctx context.Context, n, workers int, read func(i int) error) (faults []error, err error) {
	faults = make([]error, n)
	return faults, EachImage(ctx, n, workers, func(i int) error {
		faults[i] = panics.Catch(func() error { return read(i) })
		return nil
	})
}

// InTurn yields n images in order. It reads a block of them at once, 0 for one per processor. It ends with the first error, as [EachImage] has it.
func InTurn[I any](ctx context.Context, n, block int, read func(i int) (I, error)) iter.Seq2[I, error] {
	return func(yield func(I, error) bool) {
		for first := 0; first < n; {
			images := make([]I, min(cmp.Or(block, runtime.GOMAXPROCS(0)), n-first))
			err := EachImage(ctx, len(images), 0, func(i int) (err error) { images[i], err = read(first + i); return err })
			if err != nil {
				yield(*new(I), err)
				return
			}
			for _, image := range images {
				if !yield(image, nil) {
					return
				}
			}
			first += len(images)
		}
	}
}

// readInto reads the image at a position of the batch, or the next one that can be read.
func (l Loader) readInto(b *Batch, position int, pixels []uint8) (skipped []Skipped, err error) {
	source, first := l.Objects, 0
	if int(b.Images[position]) >= Count(l.Objects) {
		source, first = l.Scenes, Count(l.Objects)
	}
	for {
		b.Sizes[position], err = source.Read(int(b.Images[position])-first, pixels, l.ImageSize)
		if err == nil {
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

// PerBatch returns how many objects and scenes are in a batch: half of each where there are both.
func PerBatch(batch int, objects, scenes Source) (ofObjects, ofScenes int) {
	switch {
	case scenes == nil:
		return batch, 0
	case objects == nil:
		return 0, batch
	}
	return batch / 2, batch / 2
}

// Count returns the number of images of a source, 0 if it is nil.
func Count(s Source) int {
	if s == nil {
		return 0
	}
	return s.Len()
}
