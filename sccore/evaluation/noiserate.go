package evaluation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dsnet/try"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/analysis/dispersion"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/settings"
	"gonum.org/v1/gonum/stat"
)

// NoiseRate measures how often similar patches of different images share their class: the positive rate of the tenth of pairs with the highest cosine
// (paper, Fig. noise_rate), of the encoder's patch tokens, and of the projected features of the target branch, which are what S_t compares. Nothing is trained.
// Each seed has images and patches of its own, the same ones for each encoder.
type NoiseRate struct {
	Sample PatchSample `json:"sample"`
	Bins   int         `json:"bins" range:"[2,200]"` // Bins of equal width over similarities from −1 to 1, for the figure.
	// PatchHead is the projector, with random weights, of an encoder that was not trained with the method: as wide as those that it is compared with.
	PatchHead heads.Projector `json:"patch_head"`
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
	return fmt.Sprintf("share of pairs of patches of different images, without background where it is a class, that have one class, among the tenth with the highest cosine of patch tokens, and of features that the target branch projects; %d patches of each image of %d px",
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
	DetailAllPairs = "all pairs"     // The positive rate of all pairs, without background, %.
	detailPairs    = "million pairs" // How many there are.
	DetailSlope    = "slope"         // Of the positive rate over the deciles, in points per decile.

	// The positive rates of the top decile and of all pairs, and the slope, where background is a class like others.
	detailWithBackground      = "with background top decile"
	detailWithBackgroundPairs = "with background all pairs"
	detailWithBackgroundSlope = "with background slope"
)

// BinRate names the detail of a bin's positive rate in %, which is missing without pairs.
func BinRate(bin int) string { return fmt.Sprintf("bin %d rate", bin) }

// BinPairs names the detail of a bin's share of the pairs in %.
func BinPairs(bin int) string { return fmt.Sprintf("bin %d pairs", bin) }

// DecileRate names the detail of the positive rate of a tenth of the pairs by similarity, in %.
func DecileRate(decile int) string { return fmt.Sprintf("decile %d rate", decile+1) }

// Open opens test images. Each seed has some of its own, until none are left: then seeds begin anew with those of seed 0.
func (n NoiseRate) Open(s Source) (Data, error) {
	d, err := s.Segmentation(datasets.Test)
	if err == nil && d.Test.HasBackground() {
		d.ID += "; pairs without background" // Older records are of all pairs.
	}
	if most := n.Sample.Images; err == nil && most > 0 && most < d.Test.Len() {
		d.ID = fmt.Sprintf("%d drawn of (%s), others for each of %s", most, d.ID, plural.Count(d.Test.Len()/most, "seed"))
	}
	return d, err
}

// drawn are the places of a seed's images: most of n.
func drawn(n, most int, seed uint64) (places []int) {
	first := int(seed%uint64(n/most)) * most
	places = rand.New(rand.NewPCG(0, uint64(most))).Perm(n)[first : first+most]
	slices.Sort(places)
	return places
}

// Measure measures the positive rate of the top decile, for patch tokens and for projected features, without patches of background. The rates of bins and of
// all deciles are details.
func (n NoiseRate) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	defer try.Handle(&err)
	set := d.Test
	if most := n.Sample.Images; most > 0 && most < set.Len() {
		set = set.Pick(drawn(set.Len(), most, e.Seed))
	}
	of := func(sampled SampledPatches, name, metric string) {
		top, details := try.E2(rates(sampled.Dispersion(set.HasBackground()), n.Bins))
		if set.HasBackground() {
			all, with := try.E2(rates(sampled.Dispersion(false), n.Bins))
			details[detailWithBackground], details[detailWithBackgroundPairs], details[detailWithBackgroundSlope] = all, with[DetailAllPairs], with[DetailSlope]
		}
		r.Numbers = append(r.Numbers, Number{Name: name, Metric: metric, Unit: "%", Value: top, Details: details})
	}
	tokens := try.E1(n.Sample.Draw(ctx, e.FeatureExtractor, set, e.Seed))
	of(tokens, "top_decile", "positive rate of the top decile")
	projected, said := try.E2(n.projected(ctx, e, set, tokens))
	of(projected, "projected_top_decile", "positive rate of the top decile, projected")
	r.Protocol = n.Protocol() + "; " + said
	return r, nil
}

// projected projects the patches with the target branch of the training that the encoder's file is of, and says so. An encoder without one is its own target branch,
// whose projector the seed draws, as the method begins: tokens are its patches.
func (n NoiseRate) projected(ctx context.Context, e *Encoder, set *datasets.Segmentation, tokens SampledPatches) (of SampledPatches, said string, err error) {
	defer try.Handle(&err)
	branch, err := sccore.ReadTarget(e.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		branch, said, of = sccore.TargetBranch{ViT: e.ViT, PatchHead: n.PatchHead, Store: model.NewStore()}, "its projector has random weights", tokens
		defer branch.Store.Finalize()
	case err != nil:
		return of, "", err
	default:
		defer branch.Store.Finalize()
		said = "its projector is the training's"
		frozen := try.E1(NewFeatureExtractor(e.backend, branch.ViT, branch.Store, sccore.TargetEncoder, e.batch))
		defer frozen.Close()
		frozen.Preprocessing, frozen.Skipped = e.Preprocessing, e.Skipped
		of = try.E1(n.Sample.Draw(ctx, frozen, set, e.Seed))
	}
	of.Dim = branch.PatchHead.OutDim
	of.Features, err = branch.Project(e.backend, of.Features, e.Seed)
	return of, said, err
}

// rates measures the positive rate of the top decile in % and the details of a record.
func rates(patches dispersion.Patches, bins int) (top float64, details map[string]float64, err error) {
	defer try.Handle(&err)
	_, shown := try.E2(patches.Measure(bins))
	_, fine := try.E2(patches.Measure(fineBins))
	deciles := try.E1(dispersion.ByRank(fine, Deciles))
	whole := try.E1(dispersion.ByRank(fine, 1))
	if whole[0].Pairs == 0 {
		return 0, nil, fmt.Errorf("no pairs of annotated patches of different images")
	}
	trend := try.E1(dispersion.Trend(deciles))
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
		details[DetailSlope] = slope
	}
	return 100 * deciles[Deciles-1].Rate, details, nil
}
