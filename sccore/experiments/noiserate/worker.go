package noiserate

import (
	"fmt"
	"math"

	"github.com/semcon/semcon/analysis/dispersion"
	"github.com/semcon/semcon/sccore/study"
	"gonum.org/v1/gonum/mat"
)

const (
	fineBins = 4000 // Bins that groups by rank are merged from.
	groups   = 10   // Groups of equally many pairs; the last is the top decile.
)

// Names of details.
const (
	detailTrend = "trend"         // Rank correlation of the positive rate with similarity, over the groups.
	detailAll   = "all pairs"     // The positive rate of all pairs, %.
	detailPairs = "million pairs" // How many there are.
)

// binRate and binPairs name the details of a bin: its positive rate in %, missing without pairs, and its share of the pairs in %. groupRate names
// those of a group by rank.
func binRate(bin int) string     { return fmt.Sprintf("bin %d rate", bin) }
func binPairs(bin int) string    { return fmt.Sprintf("bin %d pairs", bin) }
func groupRate(group int) string { return fmt.Sprintf("decile %d rate", group+1) }

// number is the number that a cell records, without its value.
func number(data Data, c study.Cell[Config]) study.Number {
	s := c.Config.Sample
	return study.Number{
		Row: c.Config.Encoder.Row, Column: data.Title(), Metric: "positive rate of the top decile", Unit: "%",
		Protocol: fmt.Sprintf("share of pairs of patches of different images that have one class, among the tenth with the highest cosine; %d patches of each image of %d px", s.PerImage, s.Size),
	}
}

// run measures a cell's encoder and records its number. The seed draws the patches, the same ones for each row.
func run(r *study.Run[Config, Data]) error {
	c := r.Cell.Config
	encoder, err := c.Encoder.Open(r.Backend(), r.Cell.Seed)
	if err != nil {
		return err
	}
	defer encoder.Close()
	drawn, err := c.Sample.Draw(r.Context, encoder.FeatureExtractor, r.Data.images, uint64(r.Cell.Seed))
	if err != nil {
		return err
	}
	// Pairs are of different images, as pseudo labels are: the image stands for the object.
	patches := dispersion.Patches{Features: mat.NewDense(len(drawn.Patches), drawn.Dim, nil)}
	for i, p := range drawn.Patches {
		for d, x := range drawn.Feature(i) {
			patches.Features.(*mat.Dense).Set(i, d, float64(x))
		}
		patches.Class, patches.Instance = append(patches.Class, int(p.Class)), append(patches.Instance, p.Image)
	}
	n := number(r.Data, r.Cell)
	if n.Value, n.Details, err = rates(patches, c.Bins); err != nil {
		return err
	}
	r.Step("%s %.1f %%", n.Metric, n.Value)
	return r.Record(n)
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
	deciles, err := dispersion.ByRank(fine, groups)
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
	details = map[string]float64{detailAll: 100 * whole[0].Rate, detailPairs: float64(whole[0].Pairs) / 1e6}
	if !math.IsNaN(trend) {
		details[detailTrend] = trend
	}
	for i, b := range shown {
		if details[binPairs(i)] = 100 * float64(b.Pairs) / float64(whole[0].Pairs); b.Pairs > 0 {
			details[binRate(i)] = 100 * b.Rate
		}
	}
	for i, g := range deciles {
		details[groupRate(i)] = 100 * g.Rate
	}
	return 100 * deciles[groups-1].Rate, details, nil
}
