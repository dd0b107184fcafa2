package dispersion

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

func TestByRankByHand(t *testing.T) {
	// 4 + 4 + 2 pairs in groups of 5: the middle bin is shared 1 to 3.
	groups, err := ByRank([]PositiveRate{{4, 0}, {0, math.NaN()}, {4, 0.5}, {2, 1}}, 2)
	want := []PositiveRate{{5, 0.1}, {5, (3*0.5 + 2) / 5}}
	if err != nil || len(groups) != 2 {
		t.Fatal(groups, err)
	}
	for i, g := range groups {
		if g.Pairs != 5 || math.Abs(g.Rate-want[i].Rate) > 1e-12 {
			t.Errorf("group %d: %+v, want %+v", i, g, want[i])
		}
	}
	if trend, err := Trend(groups); err != nil || trend != 1 {
		t.Error(trend, err)
	}
	if empty, err := ByRank(nil, 3); err != nil || !math.IsNaN(empty[2].Rate) {
		t.Error(empty, err)
	}
	if _, err := ByRank(nil, 0); err == nil {
		t.Error("no error without groups")
	}
}

// TestByRankAgreesWithSortedPairs: with many bins, groups equal the groups of sorted similarities.
func TestByRankAgreesWithSortedPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	const n, dim = 60, 4
	p := Patches{Features: mat.NewDense(n, dim, nil), Class: make([]int, n), Instance: make([]int, n)}
	for i := range n {
		p.Class[i], p.Instance[i] = random.IntN(3), -1
		for d := range dim {
			p.Features.(*mat.Dense).Set(i, d, random.NormFloat64()+2*float64(p.Class[i]*d%3))
		}
	}
	_, bins, err := p.Measure(200_000)
	if err != nil {
		t.Fatal(err)
	}
	type pair struct {
		similarity float64
		same       bool
	}
	var pairs []pair
	for i := range n {
		for j := range i {
			a, b := mat.Row(nil, i, p.Features), mat.Row(nil, j, p.Features)
			pairs = append(pairs, pair{floats.Dot(a, b) / floats.Norm(a, 2) / floats.Norm(b, 2), p.Class[i] == p.Class[j]})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		if a.similarity < b.similarity {
			return -1
		}
		return 1
	})
	groups, err := ByRank(bins, 10) // 177 pairs each.
	if err != nil || len(pairs) != 1770 {
		t.Fatal(len(pairs), err)
	}
	for g, got := range groups {
		positive := 0
		for _, q := range pairs[177*g : 177*(g+1)] {
			if q.same {
				positive++
			}
		}
		if want := float64(positive) / 177; math.Abs(got.Rate-want) > 0.006 || got.Pairs != 177 {
			t.Errorf("group %d: %+v, want rate %g", g, got, want)
		}
	}
}
