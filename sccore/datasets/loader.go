package datasets

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Loader makes batches that are one half object-centric images, of one object each, and one half scenes: the paper's mixture of ImageNet
// and COCO ("Datasets"), where image-level losses see the object-centric half only. Without one of the two, all of a batch is of the
// other.
//
// Each source is passed through in an order that is shuffled anew for each epoch of it. A batch depends on the seed and its step alone,
// so a run that resumes needs no more than the step, and the number of workers changes nothing.
type Loader struct {
	Objects, Scenes Source
	BatchSize       int    // Images in a batch, even where there are two sources.
	ImageSize       int    // Height and width in pixels of the canvas that an image is read into.
	Seed            uint64 // Of the orders.
	Workers         int    // Images decoded at once; 0 for one a processor.

	// Broken says what becomes of an image that cannot be read: an error, or the next image of its source in its place.
	Broken Broken

	// Positive, unless nil, names another object-centric image that is a positive of the given one at a step: one of its nearest
	// neighbours. A batch then also has the positives of its object-centric images.
	Positive func(step int, image int32) int32
}

// Batch is what one training step sees: Objects object-centric images, then Scenes scenes, then Positives, each a positive of the
// object-centric image in its place.
type Batch struct {
	Step                       int
	Objects, Scenes, Positives int

	Pixels []uint8 // [images, Side, Side, 3], each image in the top left corner of its canvas.
	Sizes  []Size  // [images]: how far it reaches.

	// Images [images] names each image for the drawing of its views, with the step as the epoch: by its index in its source, for scenes
	// behind all object-centric images.
	Images []int32

	Skipped []Skipped // What could not be read, where that is no error, with its place in the batch taken by another image.
}

// maxBroken is how many images in a row may be broken before it is an error: a disk that fails breaks all of them.
const maxBroken = 100

// Check returns an error that names what is wrong with the mixture.
func (m Loader) Check() error {
	switch {
	case m.Objects == nil && m.Scenes == nil:
		return errors.New("a mixture of no images")
	case m.Objects != nil && m.Objects.Len() < 1 || m.Scenes != nil && m.Scenes.Len() < 1:
		return errors.New("a mixture with an empty source")
	case m.BatchSize < 1 || m.Objects != nil && m.Scenes != nil && m.BatchSize%2 != 0:
		return fmt.Errorf("a batch of %d images, want at least 1, and an even number from two sources", m.BatchSize)
	case m.ImageSize < 1:
		return fmt.Errorf("image side %d, want at least 1 pixel", m.ImageSize)
	case m.Workers < 0:
		return fmt.Errorf("%d workers, want at least 0", m.Workers)
	case m.Positive != nil && m.Objects == nil:
		return errors.New("positives without object-centric images")
	}
	return nil
}

// Batches yields the batches of the steps from the given one on, without end. The next batch is read while the caller works on one. An
// error, of ctx or one line that names a file, is the last that it yields.
func (m Loader) Batches(ctx context.Context, from int) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if err := m.Check(); err != nil {
			yield(nil, err)
			return
		}
		ctx, stop := context.WithCancel(ctx)
		type result struct {
			batch *Batch
			err   error
		}
		ready := make(chan result)
		done := make(chan struct{})
		go func() {
			defer close(done)
			orders := [2]order{{seed: m.Seed}, {seed: m.Seed + 1}}
			for step := from; ; step++ {
				batch, err := m.read(ctx, step, &orders)
				if err != nil {
					batch = nil
				}
				select {
				case ready <- result{batch, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		}()
		defer func() { stop(); <-done }()
		for {
			select {
			case r := <-ready:
				if !yield(r.batch, r.err) || r.err != nil {
					return
				}
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// order is the order in which a source's images are seen.
type order struct {
	seed  uint64
	epoch int
	perm  []int
}

// at returns the image at a place counted from the first epoch's start, of n images.
func (o *order) at(place, n int) int {
	if epoch := place / n; o.perm == nil || o.epoch != epoch {
		o.epoch = epoch
		o.perm = rand.New(rand.NewPCG(o.seed, uint64(epoch))).Perm(n)
	}
	return o.perm[place%n]
}

// read reads the batch of one step.
func (m Loader) read(ctx context.Context, step int, orders *[2]order) (*Batch, error) {
	b := &Batch{Step: step}
	switch {
	case m.Scenes == nil:
		b.Objects = m.BatchSize
	case m.Objects == nil:
		b.Scenes = m.BatchSize
	default:
		b.Objects, b.Scenes = m.BatchSize/2, m.BatchSize/2
	}
	for i := range b.Objects {
		b.Images = append(b.Images, int32(orders[0].at(step*b.Objects+i, m.Objects.Len())))
	}
	for i := range b.Scenes {
		b.Images = append(b.Images, int32(m.objects()+orders[1].at(step*b.Scenes+i, m.Scenes.Len())))
	}
	if err := m.readFrom(ctx, b, 0); err != nil || m.Positive == nil {
		return b, err
	}
	// Only now is it known which images took the places of broken ones.
	b.Positives = b.Objects
	for _, image := range b.Images[:b.Objects] {
		b.Images = append(b.Images, m.Positive(step, image))
	}
	return b, m.readFrom(ctx, b, b.Objects+b.Scenes)
}

// readFrom reads the images of a batch from a place on.
func (m Loader) readFrom(ctx context.Context, b *Batch, from int) error {
	size, n := m.ImageSize*m.ImageSize*3, len(b.Images)
	b.Pixels = append(b.Pixels, make([]uint8, n*size-len(b.Pixels))...)
	b.Sizes = append(b.Sizes, make([]Size, n-len(b.Sizes))...)
	skipped, faults := make([][]Skipped, n), make([]error, n)
	var workers errgroup.Group
	workers.SetLimit(m.workers())
	for i := from; i < n; i++ {
		workers.Go(func() error {
			if faults[i] = ctx.Err(); faults[i] == nil {
				skipped[i], faults[i] = m.readInto(b, i, b.Pixels[i*size:(i+1)*size])
			}
			return nil
		})
	}
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	// The first fault of the batch, whichever worker came to it first.
	for i := range faults {
		if faults[i] != nil {
			return faults[i]
		}
		b.Skipped = append(b.Skipped, skipped[i]...)
	}
	return nil
}

// readInto reads the image at a place of the batch, or the next one that can be read.
func (m Loader) readInto(b *Batch, place int, canvas []uint8) (skipped []Skipped, err error) {
	source, first := m.Objects, 0
	if int(b.Images[place]) >= m.objects() {
		source, first = m.Scenes, m.objects()
	}
	for {
		b.Sizes[place], err = source.Read(int(b.Images[place])-first, canvas, m.ImageSize)
		if err == nil || m.Broken == FailOnBroken {
			return skipped, err
		}
		if len(skipped) == maxBroken {
			return nil, fmt.Errorf("%d images in a row cannot be read, the last: %w", maxBroken, err)
		}
		name := fmt.Sprintf("image %d", b.Images[place])
		if pictures, ok := source.(*ImageFolder); ok {
			name = pictures.files[int(b.Images[place])-first]
		}
		skipped = append(skipped, Skipped{name, err.Error()})
		b.Images[place] = int32(first + (int(b.Images[place])-first+1)%source.Len())
	}
}

// objects is the number of object-centric images.
func (m Loader) objects() int {
	if m.Objects == nil {
		return 0
	}
	return m.Objects.Len()
}

func (m Loader) workers() int {
	if m.Workers == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return m.Workers
}
