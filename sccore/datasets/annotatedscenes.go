package datasets

import (
	"fmt"
	"image"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// AnnotatedScenes are the images of a [Segmentation] in memory, each shrunk to fit a square canvas as other sources of training are, with a label for every
// pixel: a [Source] for training that needs labels. A label is 1 + the class, and 0 where the annotation is to be ignored.
type AnnotatedScenes struct {
	Name    string
	Classes []string // The names of labels 1, 2, and so on.

	size   int
	sizes  []Size
	pixels []uint8 // [Len, size, size, 3]
	labels []uint8 // [Len, size, size]
}

// AnnotatedScenes reads all images into canvases of size×size pixels. They take 4·size² bytes each. The error is that of [Segmentation.Read].
func (s *Segmentation) AnnotatedScenes(size int) (*AnnotatedScenes, error) {
	out := &AnnotatedScenes{
		Name: s.Name, Classes: s.Classes, size: size, sizes: make([]Size, s.Len()),
		pixels: make([]uint8, s.Len()*size*size*3), labels: make([]uint8, s.Len()*size*size),
	}
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range s.Len() {
		workers.Go(func() error {
			a, err := s.Read(i)
			if err != nil {
				return err
			}
			to := fitted(Size{a.Height, a.Width}, size)
			out.sizes[i] = to
			Bicubic.resample(out.pixels[i*size*size*3:(i+1)*size*size*3], size, a.Image(), to, image.Rect(0, 0, to.Width, to.Height))
			labels := out.labels[i*size*size : (i+1)*size*size]
			for y := range to.Height {
				row := (2*y + 1) * a.Height / (2 * to.Height)
				for x := range to.Width {
					if class := a.Mask[row*a.Width+(2*x+1)*a.Width/(2*to.Width)]; class != Ignore {
						labels[y*size+x] = 1 + class
					}
				}
			}
			return nil
		})
	}
	return out, workers.Wait()
}

// Len returns the number of images.
func (s *AnnotatedScenes) Len() int { return len(s.sizes) }

// Read copies image i. It is an error if size is not that of the canvases.
func (s *AnnotatedScenes) Read(i int, pixels []uint8, size int) (Size, error) {
	if size != s.size {
		return Size{}, s.otherSize(size)
	}
	copy(pixels, s.pixels[i*size*size*3:(i+1)*size*size*3])
	return s.sizes[i], nil
}

// Labels copies the labels of image i, [size, size]. It is an error if size is not that of the canvases.
func (s *AnnotatedScenes) Labels(i int32, labels []uint8, size int) error {
	if size != s.size {
		return s.otherSize(size)
	}
	copy(labels, s.labels[int(i)*size*size:(int(i)+1)*size*size])
	return nil
}

func (s *AnnotatedScenes) otherSize(size int) error {
	return fmt.Errorf("%s: canvases of %d pixels were read, not of %d", s.Name, s.size, size)
}
