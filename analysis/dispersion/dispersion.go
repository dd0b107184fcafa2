// Package dispersion measures over-dispersion and the noise rate of correspondences. Patch features with the class and object of each patch go in.
// Mean similarities within and between objects and classes, and the share of true positives by similarity come out ([Patches.Measure]).
//
// The next measure of patches gets a file here.
package dispersion

import (
	"fmt"
	"math"

	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"gonum.org/v1/gonum/mat"
)

// Patches are patch features with the class and object of each patch, for the measures of over-dispersion.
type Patches struct {
	Features mat.Matrix // The patches' feature vectors, [N, D], of any norm but 0.
	// Class is the category of each patch, and Instance the object that it lies on, numbered over all images. A negative class means no label; such patches are
	// left out of every measure. A negative instance means no object, as for sky or grass: two such patches are not a pair of one instance.
	Class, Instance []int
}

// PatchSimilarity are mean cosine similarities between different patches, in [−1, 1], or NaN without such pairs. In over-dispersed features, Instance
// and Class fall towards InterClass.
type PatchSimilarity struct {
	// Instance is the mean over pairs of one instance, Class over pairs of one class but different instances, InterClass over pairs of different classes.
	Instance, Class, InterClass                float64
	InstancePairs, ClassPairs, InterClassPairs int // Their numbers.
}

// PositiveRate is how often patches of a given similarity share their class. It is the figure of noise rates (Fig. noise_rate): self-supervision
// takes pairs of high similarity as positives.
type PositiveRate struct {
	Pairs int     // Pairs of patches of different instances.
	Rate  float64 // The share of these pairs that share a class, NaN without pairs.
}

// blockSimilarities limits the similarities in memory at a time: 32 MB.
const blockSimilarities = 4 << 20

// Measure computes mean similarities over all pairs, and the positive rate in bins of equal width over [−1, 1], of which the last includes 1.
// It holds one block of the similarity matrix at a time. It is an error if lengths do not match, if a vector is zero or not finite, or if there are no bins.
func (p Patches) Measure(bins int) (PatchSimilarity, []PositiveRate, error) {
	unit, class, instance, err := p.labelled()
	if err != nil {
		return PatchSimilarity{}, nil, err
	}
	if bins < 1 {
		return PatchSimilarity{}, nil, fmt.Errorf("positive rate: %d bins, want at least 1", bins)
	}
	positive, rates := make([]int, bins), make([]PositiveRate, bins)
	var s PatchSimilarity
	count, dim := unit.Dims()
	rows := max(1, blockSimilarities/max(count, 1))
	for begin := 0; begin < count; begin += rows {
		end := min(begin+rows, count)
		var block mat.Dense
		block.Mul(unit.Slice(begin, end, 0, dim), unit.T())
		for i := begin; i < end; i++ {
			for j, similarity := range block.RawRowView(i - begin)[:i] {
				same := class[i] == class[j]
				switch {
				case instance[i] == instance[j] && instance[i] >= 0:
					s.Instance += similarity
					s.InstancePairs++
					continue
				case same:
					s.Class += similarity
					s.ClassPairs++
				default:
					s.InterClass += similarity
					s.InterClassPairs++
				}
				b := max(0, min(bins-1, int((similarity+1)/2*float64(bins))))
				rates[b].Pairs++
				if same {
					positive[b]++
				}
			}
		}
	}
	s.Instance /= float64(s.InstancePairs) // 0/0 is NaN: no such pair.
	s.Class /= float64(s.ClassPairs)
	s.InterClass /= float64(s.InterClassPairs)
	for b := range rates {
		rates[b].Rate = float64(positive[b]) / float64(rates[b].Pairs)
	}
	return s, rates, nil
}

// labelled returns the patches that have a class, scaled to length 1: an empty matrix if no patch has one.
func (p Patches) labelled() (unit *mat.Dense, class, instance []int, err error) {
	count, dim := p.Features.Dims()
	if len(p.Class) != count || len(p.Instance) != count {
		return nil, nil, nil, fmt.Errorf("patches: %d vectors with %d classes and %d instances", count, len(p.Class), len(p.Instance))
	}
	var data []float64
	for i := range count {
		if p.Class[i] < 0 {
			continue
		}
		row := mat.Row(nil, i, p.Features)
		norm := lo.Reduce(row, func(norm, x float64, _ int) float64 { return math.Hypot(norm, x) }, 0)
		if !(norm > 0) || math.IsInf(norm, 0) {
			return nil, nil, nil, fmt.Errorf("patches: vector %d has length %g, which has no direction", i, norm)
		}
		for j := range row {
			row[j] /= norm
		}
		data = append(data, row...)
		class, instance = append(class, p.Class[i]), append(instance, p.Instance[i])
	}
	unit = new(mat.Dense)
	if data != nil {
		unit = mat.NewDense(len(class), dim, data)
	}
	return unit, class, instance, nil
}

// ByRank groups pairs by the rank of their similarity: the bins of [Patches.Measure], which should be many, are merged into groups of equally many
// pairs, the least similar first. A bin on the border of two groups is shared between them at its own rate, so Pairs of a group are rounded. The last
// of ten groups is the top decile. Without pairs, rates are NaN. Fewer than one group is an error.
func ByRank(bins []PositiveRate, groups int) ([]PositiveRate, error) {
	if groups < 1 {
		return nil, fmt.Errorf("positive rate by rank: %d groups, want at least 1", groups)
	}
	left := lo.Map(bins, func(b PositiveRate, _ int) float64 { return float64(b.Pairs) }) // Pairs of each bin that no group has.
	total := lo.Sum(left)
	merged := make([]PositiveRate, groups)
	each, next := total/float64(groups), 0 // next is the bin to take from.
	for g := range merged {
		wanted, positive := each, 0.0
		for wanted > 1e-9*total && next < len(bins) {
			taken := min(wanted, left[next])
			if taken > 0 { // The rate of a bin without pairs is NaN.
				positive += taken * bins[next].Rate
			}
			wanted, left[next] = wanted-taken, left[next]-taken
			if left[next] <= 0 {
				next++
			}
		}
		merged[g] = PositiveRate{Pairs: int(math.Round(each)), Rate: positive / each}
	}
	return merged, nil
}

// Trend is the rank correlation of the positive rate with similarity over groups of [ByRank], in [−1, 1]: 1 if each group has a higher rate than the
// one before, as where noise falls with similarity. It is NaN if all rates are equal or there are no pairs.
func Trend(groups []PositiveRate) (float64, error) {
	return stats.Spearman(lo.RangeFrom(0.0, len(groups)), lo.Map(groups, func(g PositiveRate, _ int) float64 { return g.Rate }))
}
