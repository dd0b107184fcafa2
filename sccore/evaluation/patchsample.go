package evaluation

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/semcon/semcon/analysis/dispersion"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/settings"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
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

// NoiseRate measures how often similar patches of different images share their class: the positive rate of the tenth of pairs with the highest cosine
// (paper, Fig. noise_rate). Nothing is trained; the seed draws the patches, the same ones for each encoder.
type NoiseRate struct {
	testImages
	Sample PatchSample `json:"sample"`
	Bins   int         `json:"bins" range:"[2,200]"` // Bins of equal width over similarities from −1 to 1, for the figure.
}

// maxPatches bounds the pairs: of as many patches there are half a billion.
const maxPatches = 1 << 15

// Rules returns an error for more pairs than can be counted.
func (n NoiseRate) Rules() error {
	return cmp.Or(
		settings.Between("sample.images", n.Sample.Images, 2, maxPatches),
		settings.Between("sample.per_image", n.Sample.PerImage, 1, maxPatches/max(n.Sample.Images, 1)),
	)
}

// Protocol describes the evaluation in one line.
func (n NoiseRate) Protocol() string {
	return fmt.Sprintf("share of pairs of patches of different images that have one class, among the tenth with the highest cosine; %d patches of each image of %d px, the images drawn by the seed",
		n.Sample.PerImage, n.Sample.Size)
}

// How pairs are grouped by rank.
const (
	fineBins = 4000 // Bins that deciles are merged from.
	Deciles  = 10   // Groups of equally many pairs by rank; the last is the top decile.
)

// Names of details.
const (
	DetailTrend    = "trend"         // Rank correlation of the positive rate with similarity, over the deciles.
	DetailAllPairs = "all pairs"     // The positive rate of all pairs, %.
	detailPairs    = "million pairs" // How many there are.
	detailSlope    = "slope"         // Of the positive rate over the deciles, in points per decile.

	// The positive rates of the top decile and of all pairs, and the slope, without patches of background.
	DetailObjects     = "objects top decile"
	DetailObjectPairs = "objects all pairs"
	detailObjectSlope = "objects slope"
)

// BinRate names the detail of a bin's positive rate in %, which is missing without pairs.
func BinRate(bin int) string { return fmt.Sprintf("bin %d rate", bin) }

// BinPairs names the detail of a bin's share of the pairs in %.
func BinPairs(bin int) string { return fmt.Sprintf("bin %d pairs", bin) }

// DecileRate names the detail of the positive rate of a tenth of the pairs by similarity, in %.
func DecileRate(decile int) string { return fmt.Sprintf("decile %d rate", decile+1) }

// Measure measures the positive rate of the top decile, with that of bins and deciles as details.
func (n NoiseRate) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	set, sample := d.Test, n.Sample
	if sample.Images > 0 && sample.Images < set.Len() { // Each seed draws its own.
		places := rand.New(rand.NewPCG(e.Seed, uint64(sample.Images))).Perm(set.Len())[:sample.Images]
		slices.Sort(places)
		set = set.Pick(places)
	}
	drawn, err := sample.Draw(ctx, e.FeatureExtractor, set, e.Seed)
	if err != nil {
		return r, err
	}
	top, details, err := rates(drawn.Dispersion(false), n.Bins)
	if err == nil && set.Classes[0] == "background" {
		// Without an object in two images there are no such rates.
		if objects, without, err := rates(drawn.Dispersion(true), n.Bins); err == nil {
			details[DetailObjects], details[DetailObjectPairs], details[detailObjectSlope] = objects, without[DetailAllPairs], without[detailSlope]
		}
	}
	r.Numbers = []Number{{Name: "top_decile", Metric: "positive rate of the top decile", Unit: "%", Value: top, Details: details}}
	return r, err
}

// rates measures the positive rate of the top decile in % and the details of a record.
func rates(patches dispersion.Patches, bins int) (top float64, details map[string]float64, err error) {
	_, shown, err := patches.Measure(bins)
	if err != nil {
		return 0, nil, err
	}
	_, fine, err := patches.Measure(fineBins)
	if err != nil {
		return 0, nil, err
	}
	deciles, err := dispersion.ByRank(fine, Deciles)
	if err != nil {
		return 0, nil, err
	}
	whole, err := dispersion.ByRank(fine, 1)
	if err != nil {
		return 0, nil, err
	}
	if whole[0].Pairs == 0 {
		return 0, nil, fmt.Errorf("no pairs of annotated patches of different images")
	}
	trend, err := dispersion.Trend(deciles)
	if err != nil {
		return 0, nil, err
	}
	details = map[string]float64{DetailAllPairs: 100 * whole[0].Rate, detailPairs: float64(whole[0].Pairs) / 1e6}
	if !math.IsNaN(trend) {
		details[DetailTrend] = trend
	}
	for i, b := range shown {
		if details[BinPairs(i)] = 100 * float64(b.Pairs) / float64(whole[0].Pairs); b.Pairs > 0 {
			details[BinRate(i)] = 100 * b.Rate
		}
	}
	var places, of []float64
	for i, g := range deciles {
		details[DecileRate(i)] = 100 * g.Rate
		places, of = append(places, float64(i)), append(of, 100*g.Rate)
	}
	if _, slope := stat.LinearRegression(places, of, nil, false); !math.IsNaN(slope) {
		details[detailSlope] = slope
	}
	return 100 * deciles[Deciles-1].Rate, details, nil
}
