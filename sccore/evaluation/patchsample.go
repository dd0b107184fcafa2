package evaluation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/settings"
)

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

// Draw draws patches and computes their features. Which patches of an image are drawn depends on the seed and the image alone, so it is the same for
// encoders with patches of one size. A set without an annotated patch is an error.
func (s PatchSample) Draw(ctx context.Context, frozen *FeatureExtractor, set *datasets.Segmentation, seed uint64) (SampledPatches, error) {
	if err := settings.Check(s); err != nil {
		return SampledPatches{}, err
	}
	if s.Size%frozen.ViT.PatchSize != 0 {
		return SampledPatches{}, fmt.Errorf("size %d is not a multiple of %s's patch size %d", s.Size, frozen.ViT.Name, frozen.ViT.PatchSize)
	}
	grid := s.Size / frozen.ViT.PatchSize
	drawn := SampledPatches{Dim: frozen.ViT.Dim, Grid: grid}
	places := datasets.Spread(set.Len(), s.Images)
	fixed := FrozenFeatures{Extractor: frozen, Images: set}
	read := func(i int) (Image, []uint8, error) {
		a, err := set.Read(places[i])
		if err != nil {
			return Image{}, nil, err
		}
		im := NewImage(part(a, a.Image().Rect, s.Size, s.Size), datasets.Size{Height: s.Size, Width: s.Size}, frozen.Preprocessing)
		im.Name = fixed.nameOf(a, places[i])
		var classes []uint8
		for p := range grid * grid {
			y, x := (2*(p/grid)+1)*a.Height/(2*grid), (2*(p%grid)+1)*a.Width/(2*grid)
			classes = append(classes, a.Mask[y*a.Width+x])
		}
		return im, classes, nil
	}
	image := 0
	for patches, err := range fixed.encode(ctx, len(places), read) {
		if err != nil {
			return SampledPatches{}, err
		}
		var annotated []int
		for p, class := range patches.Labels {
			if class != datasets.Ignore {
				annotated = append(annotated, p)
			}
		}
		if s.PerImage > 0 && len(annotated) > s.PerImage {
			rng := rand.New(rand.NewPCG(seed, uint64(places[image])))
			rng.Shuffle(len(annotated), func(i, j int) { annotated[i], annotated[j] = annotated[j], annotated[i] })
			annotated = annotated[:s.PerImage]
			slices.Sort(annotated)
		}
		for _, p := range annotated {
			drawn.Features = append(drawn.Features, patches.Features[p*drawn.Dim:(p+1)*drawn.Dim]...)
			drawn.Patches = append(drawn.Patches, SampledPatch{places[image], p / grid, p % grid, patches.Labels[p]})
		}
		image++
	}
	if len(drawn.Patches) == 0 {
		return SampledPatches{}, errNotAnnotated
	}
	return drawn, nil
}
