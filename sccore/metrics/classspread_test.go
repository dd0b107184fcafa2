package metrics

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/internal/testbackend"
)

// TestSpreadOfClassesSplitsTheVariance compares with loops in float64 and tests the ends of the range.
func TestSpreadOfClassesSplitsTheVariance(t *testing.T) {
	const n, dim = 60, 5
	random := rand.New(rand.NewPCG(3, 4))
	features, labels := make([][]float64, n), make([]int32, n)
	unit := make([][]float64, n)
	for i := range features {
		labels[i] = []int32{0, 1, 7, 255}[random.IntN(4)]
		norm := 0.0
		for j := range dim {
			features[i] = append(features[i], random.NormFloat64()+float64(labels[i])*float64(j)/100)
			norm = math.Hypot(norm, features[i][j])
		}
		for j := range dim {
			unit[i] = append(unit[i], features[i][j]/norm)
		}
	}
	meanOf := func(counts func(i int) bool) []float64 {
		mean, count := make([]float64, dim), 0.0
		for i := range unit {
			if counts(i) {
				count++
				for j, x := range unit[i] {
					mean[j] += x
				}
			}
		}
		for j := range mean {
			mean[j] /= count
		}
		return mean
	}
	squared := func(a, b []float64) (sum float64) {
		for j := range a {
			sum += (a[j] - b[j]) * (a[j] - b[j])
		}
		return sum
	}
	centre := meanOf(func(i int) bool { return labels[i] > 0 })
	within, between, whole, count := 0.0, 0.0, 0.0, 0.0
	for i, label := range labels {
		if label > 0 {
			own := meanOf(func(j int) bool { return labels[j] == label })
			within, between, whole, count = within+squared(unit[i], own), between+squared(own, centre), whole+squared(unit[i], centre), count+1
		}
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		exec := MustNewExec(b, SpreadOfClasses)
		measure := func(features [][]float64, labels []int32) ClassSpread {
			parts := exec.MustCall(features, labels)[0].Value().([]float64)
			return ClassSpread{Within: parts[0], Between: parts[1]}
		}
		got := measure(features, labels)
		if !(math.Abs(got.Within-within/count) <= 1e-12) || !(math.Abs(got.Between-between/count) <= 1e-12) || !(math.Abs(got.Within+got.Between-whole/count) <= 1e-12) {
			t.Errorf("%+v, want %g and %g, together %g", got, within/count, between/count, whole/count)
		}
		for name, c := range map[string]struct {
			spread ClassSpread
			want   float64
		}{
			"one point per class": {measure([][]float64{{1, 0}, {2, 0}, {0, 1}, {0, 3}}, []int32{1, 1, 2, 2}), 1},
			"classes alike":       {measure([][]float64{{1, 0}, {0, 2}, {0, 1}, {3, 0}}, []int32{1, 1, 2, 2}), 0},
			"no label":            {measure([][]float64{{1, 0}, {0, 1}}, []int32{0, 0}), 0},
			"a point":             {measure([][]float64{{1, 0}, {1, 0}}, []int32{1, 2}), 0},
		} {
			if !(math.Abs(c.spread.Share()-c.want) <= 1e-12) {
				t.Errorf("%s: %+v has the share %g, want %g", name, c.spread, c.spread.Share(), c.want)
			}
		}
	})
}
