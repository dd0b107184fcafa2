package dispersion

import (
	"fmt"
	"math"

	"github.com/semcon/semcon/analysis/stats"
)

// ByRank groups pairs by the rank of their similarity: the bins of [Patches.Measure], which should be many, are merged into groups of equally many
// pairs, the least similar first. A bin on the border of two groups is shared between them at its own rate, so Pairs of a group are rounded. The last
// of ten groups is the top decile. Without pairs, rates are NaN. Fewer than one group is an error.
func ByRank(bins []PositiveRate, groups int) ([]PositiveRate, error) {
	if groups < 1 {
		return nil, fmt.Errorf("positive rate by rank: %d groups, want at least 1", groups)
	}
	total := 0.0
	for _, b := range bins {
		total += float64(b.Pairs)
	}
	merged := make([]PositiveRate, groups)
	each, next := total/float64(groups), 0 // next is the bin to take from.
	left := 0.0                            // Pairs of that bin that no group has.
	if len(bins) > 0 {
		left = float64(bins[0].Pairs)
	}
	for g := range merged {
		m := &merged[g]
		m.Low, m.High = math.NaN(), math.NaN()
		wanted, positive := each, 0.0
		for wanted > 1e-9*total && next < len(bins) {
			taken := min(wanted, left)
			if taken > 0 {
				if math.IsNaN(m.Low) {
					m.Low = bins[next].Low
				}
				m.High = bins[next].High
				positive += taken * bins[next].Rate
			}
			wanted, left = wanted-taken, left-taken
			if left <= 0 {
				if next++; next < len(bins) {
					left = float64(bins[next].Pairs)
				}
			}
		}
		m.Pairs, m.Rate = int(math.Round(each)), positive/each
	}
	return merged, nil
}

// Trend is the rank correlation of the positive rate with similarity over groups of [ByRank], in [−1, 1]: 1 if each group has a higher rate than the
// one before, as where noise falls with similarity. It is NaN if all rates are equal or there are no pairs.
func Trend(groups []PositiveRate) (float64, error) {
	var places, rates []float64
	for i, g := range groups {
		places, rates = append(places, float64(i)), append(rates, g.Rate)
	}
	return stats.Spearman(places, rates)
}
