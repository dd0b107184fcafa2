package evaluation

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
)

// FrozenFeatures computes the features of a segmentation dataset by a frozen encoder: of random crops, to train heads on, and of whole images, to
// test them on. It reads and encodes one batch at a time, so that memory does not grow with the dataset.
type FrozenFeatures struct {
	Extractor *FeatureExtractor
	Images    *datasets.Segmentation
	Crop      RandomResizedCrop
	Seed      uint64 // Draws the crops. A crop depends on the seed, its image and its number alone.
	TestSize  int    // Height and width in pixels that whole images are resized to.
}

// Patches are the features of one image or crop.
type Patches struct {
	Features []float32 // [rows, columns, Dim]
	Labels   []uint8   // A crop's, [8·rows, 8·columns], classes or [datasets.Ignore]; nil for a whole image.
}

// Sample names a crop: its image, and its number among that image's crops.
type Sample struct{ Image, Crop int }

// Grid is the number of patches along each side of a crop.
func (f FrozenFeatures) Grid() int { return f.Crop.Size / f.Extractor.ViT.PatchSize }

// Crops yields the features and labels of crops in the given order. It ends with the first error.
func (f FrozenFeatures) Crops(ctx context.Context, samples []Sample) iter.Seq2[Patches, error] {
	return f.encode(ctx, len(samples), func(i int) (Image, []uint8, error) {
		a, err := f.Images.Read(samples[i].Image)
		if err != nil {
			return Image{}, nil, err
		}
		rng := rand.New(rand.NewPCG(f.Seed, uint64(samples[i].Image)<<32|uint64(samples[i].Crop)))
		pixels, labels := f.Crop.Cut(a, heads.Upsampling*f.Grid(), rng)
		im := NewImage(pixels, datasets.Size{Height: f.Crop.Size, Width: f.Crop.Size}, f.Extractor.Preprocessing)
		im.Name = f.nameOf(a, samples[i].Image)
		return im, labels, nil
	})
}

// Whole yields the features of whole images in the given order. It ends with the first error.
func (f FrozenFeatures) Whole(ctx context.Context, images []int) iter.Seq2[Patches, error] {
	return f.encode(ctx, len(images), func(i int) (Image, []uint8, error) {
		a, err := f.Images.Read(images[i])
		if err != nil {
			return Image{}, nil, err
		}
		size := datasets.Size{Height: f.TestSize, Width: f.TestSize}
		im := NewImage(part(a, a.Image().Rect, f.TestSize, f.TestSize), size, f.Extractor.Preprocessing)
		im.Name = f.nameOf(a, images[i])
		return im, nil, nil
	})
}

// nameOf names an image in errors.
func (f FrozenFeatures) nameOf(a *datasets.SegmentedImage, i int) string {
	return cmp.Or(a.Name, fmt.Sprintf("%d of %s", i, f.Images.Name))
}

// encode reads images in parallel, a block at a time, and encodes them.
func (f FrozenFeatures) encode(ctx context.Context, n int, read func(i int) (Image, []uint8, error)) iter.Seq2[Patches, error] {
	return func(yield func(Patches, error) bool) {
		var labels [][]uint8 // The labels of images that are read but not yet yielded.
		images := func(yield func(Image, error) bool) {
			block := f.Extractor.batch
			for first := 0; first < n; first += block {
				count := min(block, n-first)
				images, truths := make([]Image, count), make([][]uint8, count)
				err := datasets.EachImage(ctx, count, 0, func(i int) (err error) { images[i], truths[i], err = read(first + i); return err })
				if err != nil {
					yield(Image{}, err)
					return
				}
				labels = append(labels, truths...)
				for _, im := range images {
					if !yield(im, nil) {
						return
					}
				}
			}
		}
		for features, err := range f.Extractor.Features(images, true) {
			if err != nil {
				yield(Patches{}, err)
				return
			}
			patches := Patches{features.Patches, labels[0]}
			if labels = labels[1:]; !yield(patches, nil) {
				return
			}
		}
	}
}
