package evaluation

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/semcon/semcon/analysis/dispersion"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/settings"
	"gonum.org/v1/gonum/mat"
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

// Dispersion returns the patches as package dispersion takes them: the image stands for the object, so that pairs are of different images, as pseudo labels are.
// Without background those of the first class have no label.
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
	for patches, err := range (FrozenFeatures{Extractor: frozen, Images: set, TestSize: s.Size}).Whole(ctx, places) {
		if err != nil {
			return SampledPatches{}, err
		}
		image := places[0]
		places = places[1:]
		var annotated []SampledPatch
		for p, class := range patches.middleClasses(grid) {
			if class != datasets.Ignore {
				annotated = append(annotated, SampledPatch{image, p / grid, p % grid, class})
			}
		}
		if s.PerImage > 0 && len(annotated) > s.PerImage {
			rng := rand.New(rand.NewPCG(seed, uint64(image)))
			rng.Shuffle(len(annotated), func(i, j int) { annotated[i], annotated[j] = annotated[j], annotated[i] })
			annotated = annotated[:s.PerImage]
			slices.SortFunc(annotated, func(a, b SampledPatch) int { return cmp.Or(a.Row-b.Row, a.Column-b.Column) })
		}
		for _, p := range annotated {
			at := (p.Row*grid + p.Column) * drawn.Dim
			drawn.Features = append(drawn.Features, patches.Features[at:at+drawn.Dim]...)
		}
		drawn.Patches = append(drawn.Patches, annotated...)
	}
	if len(drawn.Patches) == 0 {
		return SampledPatches{}, errNotAnnotated
	}
	return drawn, nil
}
