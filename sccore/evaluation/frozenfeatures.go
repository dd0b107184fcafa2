package evaluation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/dispersion"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/settings"
	"golang.org/x/image/draw"
	"gonum.org/v1/gonum/mat"
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
	Features []float32                // [rows, columns, Dim]
	Labels   []uint8                  // A crop's, [8·rows, 8·columns], classes or [datasets.Ignore]; nil for a whole image.
	Image    *datasets.SegmentedImage // A whole image; nil for a crop.
}

// errNotAnnotated says that there are no pixels to evaluate on.
var errNotAnnotated = errors.New("segmentation: no pixel of the images is annotated")

// middleClasses returns the class of each of grid×grid patches: the class of the pixel in its middle.
func (p Patches) middleClasses(grid int) []uint8 {
	of := cmp.Or(p.Image, &datasets.SegmentedImage{Mask: p.Labels, Height: heads.Upsampling * grid, Width: heads.Upsampling * grid})
	return of.Classes(image.Rect(0, 0, of.Width, of.Height), grid, grid)
}

// eachPatch calls visit with the feature and the class of each patch that has one, image by image, and returns their number; none is an error. classes returns the
// class of each patch of an image, or [datasets.Ignore].
func eachPatch(images iter.Seq2[Patches, error], classes func(Patches) []uint8, visit func(feature []float32, class uint8)) (visited int, err error) {
	defer try.Handle(&err)
	for patches, err := range images {
		try.E(err)
		all := classes(patches)
		dim := len(patches.Features) / len(all)
		for i, class := range all {
			if class != datasets.Ignore {
				visit(patches.Features[i*dim:(i+1)*dim], class)
				visited++
			}
		}
	}
	if visited == 0 {
		return 0, errNotAnnotated
	}
	return visited, nil
}

// Sample names a crop: its image, and its number among that image's crops.
type Sample struct{ Image, Crop int }

// samplesOf names the crops of one number of images.
func samplesOf(images []int, crop int) []Sample {
	return lo.Map(images, func(image, _ int) Sample { return Sample{image, crop} })
}

// Grid is the number of patches along each side of a crop.
func (f FrozenFeatures) Grid() int { return f.Crop.Size / f.Extractor.ViT.PatchSize }

// Crops yields the features and labels of crops in the given order. It ends with the first error.
func (f FrozenFeatures) Crops(ctx context.Context, samples []Sample) iter.Seq2[Patches, error] {
	image := func(i int) int { return samples[i].Image }
	return f.encode(ctx, len(samples), image, f.Crop.Size, func(i int, a *datasets.SegmentedImage) ([]uint8, Patches) {
		rng := rand.New(rand.NewPCG(f.Seed, uint64(samples[i].Image)<<32|uint64(samples[i].Crop)))
		pixels, labels := f.Crop.Cut(a, heads.Upsampling*f.Grid(), rng)
		return pixels, Patches{Labels: labels}
	})
}

// All yields the features of all images, whole and in order. It ends with the first error.
func (f FrozenFeatures) All(ctx context.Context) iter.Seq2[Patches, error] {
	return f.Whole(ctx, datasets.Spread(f.Images.Len(), 0))
}

// Whole yields the features of whole images in the given order. It ends with the first error.
func (f FrozenFeatures) Whole(ctx context.Context, images []int) iter.Seq2[Patches, error] {
	image := func(i int) int { return images[i] }
	return f.encode(ctx, len(images), image, f.TestSize, func(_ int, a *datasets.SegmentedImage) ([]uint8, Patches) {
		return part(a, a.Image().Rect, f.TestSize, f.TestSize), Patches{Image: a}
	})
}

// encode reads n images in parallel, a block at a time, and encodes what cut makes of each: pixels of a square of size pixels.
func (f FrozenFeatures) encode(
	ctx context.Context, n int, image func(i int) int, size int, cut func(i int, a *datasets.SegmentedImage) ([]uint8, Patches),
) iter.Seq2[Patches, error] {
	type crop struct {
		image   Image
		patches Patches
	}
	return func(yield func(Patches, error) bool) {
		var pending []Patches // Of images that are read but not yet yielded.
		images := func(yield func(Image, error) bool) {
			for read, err := range datasets.InTurn(ctx, n, f.Extractor.batch, func(i int) (c crop, err error) {
				defer try.Handle(&err)
				a := try.E1(f.Images.Read(image(i)))
				pixels, patches := cut(i, a)
				c = crop{NewImage(pixels, datasets.Size{Height: size, Width: size}, f.Extractor.Preprocessing), patches}
				c.image.Name = cmp.Or(a.Name, fmt.Sprintf("%d of %s", image(i), f.Images.Name))
				return c, nil
			}) {
				if pending = append(pending, read.patches); !yield(read.image, err) {
					return
				}
			}
		}
		for features, err := range f.Extractor.Extract(images, Outputs{Patches: true}) {
			if err != nil {
				yield(Patches{}, err)
				return
			}
			pending[0].Features = features[0].Patches
			if !yield(pending[0], nil) {
				return
			}
			pending = pending[1:]
		}
	}
}

// RandomResizedCrop draws training crops of annotated images: a box of random area and aspect ratio, resized to Size×Size and flipped half of the
// time. The paper says only "randomly cropped"; the box is drawn as by torchvision's RandomResizedCrop, with an area from MinScale to 1 of the
// image's and an aspect ratio from 3:4 to 4:3.
type RandomResizedCrop struct {
	Size     int     `json:"train" range:"[1,2048]"` // In pixels.
	MinScale float64 `json:"min_area" range:"(0,1]"`
}

// Cut draws a crop of an image: its pixels, [Size, Size, 3], and its labels at the cell centres of a grid, [grid, grid].
func (c RandomResizedCrop) Cut(a *datasets.SegmentedImage, grid int, rng *rand.Rand) (pixels, labels []uint8) {
	box, mirrored := c.box(a.Height, a.Width, rng), rng.IntN(2) == 1
	pixels, labels = part(a, box, c.Size, c.Size), a.Classes(box, grid, grid)
	if mirrored {
		for row := range slices.Chunk(pixels, 3*c.Size) {
			datasets.Mirror(row)
		}
		for row := range grid {
			slices.Reverse(labels[row*grid : (row+1)*grid])
		}
	}
	return pixels, labels
}

// box draws a box within an image. After ten draws that do not fit, it takes the largest central box with an allowed aspect ratio.
func (c RandomResizedCrop) box(height, width int, rng *rand.Rand) image.Rectangle {
	const most = 4.0 / 3
	for range 10 {
		area := float64(height*width) * (c.MinScale + (1-c.MinScale)*rng.Float64())
		ratio := math.Exp(math.Log(most) * (2*rng.Float64() - 1))
		w, h := int(math.Round(math.Sqrt(area*ratio))), int(math.Round(math.Sqrt(area/ratio)))
		if 0 < w && w <= width && 0 < h && h <= height {
			corner := image.Pt(rng.IntN(width-w+1), rng.IntN(height-h+1))
			return image.Rectangle{corner, corner.Add(image.Pt(w, h))}
		}
	}
	w := max(1, min(width, int(math.Round(float64(height)*most))))
	h := max(1, min(height, int(math.Round(float64(width)*most))))
	corner := image.Pt((width-w)/2, (height-h)/2)
	return image.Rectangle{corner, corner.Add(image.Pt(w, h))}
}

// part resizes a box of an image to [height, width, 3], bilinearly, with a kernel that widens when it shrinks.
func part(a *datasets.SegmentedImage, box image.Rectangle, height, width int) []uint8 {
	picture := a.Image()
	small := image.NewRGBA(image.Rect(0, 0, width, height))
	if box.Size() == small.Rect.Size() {
		draw.Draw(small, small.Rect, picture, box.Min, draw.Src)
	} else {
		draw.BiLinear.Scale(small, small.Rect, picture, box, draw.Src, nil)
	}
	return datasets.RGB(small)
}

// PatchSample draws patches of annotated images. Images are resized to squares, whole. A patch has the class of the pixel in its middle; patches that are
// not annotated are left out.
type PatchSample struct {
	Images   int `json:"images" range:"[0,2^31)"`    // The number taken from the set, evenly spread; 0 takes all.
	PerImage int `json:"per_image" range:"[0,2^31)"` // The most patches drawn from each; 0 takes all.
	Size     int `json:"size" range:"[8,2048]"`      // Side of an image in pixels.
}

// SampledPatches are patches of a set, in the order of its images and from the upper left of each.
type SampledPatches struct {
	Features []float32 // [N, Dim]
	Dim      int
	Grid     int // Rows, and columns, of patches of each image.
	Patches  []SampledPatch
}

// SampledPatch says which one a patch is.
type SampledPatch struct {
	Image       int // In the set.
	Row, Column int // In the grid.
	Class       uint8
}

// Feature returns the feature of patch i.
func (s SampledPatches) Feature(i int) []float32 {
	return s.Features[i*s.Dim : (i+1)*s.Dim : (i+1)*s.Dim]
}

// Dispersion returns the patches as package dispersion takes them: the image stands for the object, so that pairs are of different images, as pseudo labels are.
// Without background, patches of the first class have no label.
func (s SampledPatches) Dispersion(withoutBackground bool) dispersion.Patches {
	patches := dispersion.Patches{Features: mat.NewDense(max(len(s.Patches), 1), max(s.Dim, 1), float64s(s.Features))}
	for _, p := range s.Patches {
		class := int(p.Class)
		if withoutBackground {
			class--
		}
		patches.Class, patches.Instance = append(patches.Class, class), append(patches.Instance, p.Image)
	}
	return patches
}

// Draw draws patches and computes their features. Which patches of an image are drawn depends on the seed and the image alone, so it is the same for
// encoders with patches of one size. A set without an annotated patch is an error.
func (s PatchSample) Draw(ctx context.Context, frozen *FeatureExtractor, set *datasets.Segmentation, seed uint64) (drawn SampledPatches, err error) {
	defer try.Handle(&err)
	try.E(settings.Check(s))
	if s.Size%frozen.ViT.PatchSize != 0 {
		return SampledPatches{}, fmt.Errorf("size %d is not a multiple of %s's patch size %d", s.Size, frozen.ViT.Name, frozen.ViT.PatchSize)
	}
	grid := s.Size / frozen.ViT.PatchSize
	drawn.Dim, drawn.Grid = frozen.ViT.Dim, grid
	places := datasets.Spread(set.Len(), s.Images)
	for patches, err := range (FrozenFeatures{Extractor: frozen, Images: set, TestSize: s.Size}).Whole(ctx, places) {
		try.E(err)
		image := places[0]
		places = places[1:]
		classes := patches.middleClasses(grid)
		annotated := lo.Filter(lo.Range(grid*grid), func(p, _ int) bool { return classes[p] != datasets.Ignore })
		if s.PerImage > 0 && len(annotated) > s.PerImage {
			rng := rand.New(rand.NewPCG(seed, uint64(image)))
			rng.Shuffle(len(annotated), func(i, j int) { annotated[i], annotated[j] = annotated[j], annotated[i] })
			annotated = annotated[:s.PerImage]
			slices.Sort(annotated)
		}
		for _, p := range annotated {
			drawn.Features = append(drawn.Features, patches.Features[p*drawn.Dim:(p+1)*drawn.Dim]...)
			drawn.Patches = append(drawn.Patches, SampledPatch{image, p / grid, p % grid, classes[p]})
		}
	}
	if len(drawn.Patches) == 0 {
		return SampledPatches{}, errNotAnnotated
	}
	return drawn, nil
}
