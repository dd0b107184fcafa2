package dispersion

import (
	"fmt"
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
		if g.Pairs != 5 || !(math.Abs(g.Rate-want[i].Rate) <= 1e-12) {
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
		if want := float64(positive) / 177; !(math.Abs(got.Rate-want) <= 0.006) || got.Pairs != 177 {
			t.Errorf("group %d: %+v, want rate %g", g, got, want)
		}
	}
}

func ExampleByRank() {
	// Four pairs without a common class, four of which half have one, and two that have one. The first five are the first four and one of the next four.
	groups, err := ByRank([]PositiveRate{{Pairs: 4, Rate: 0}, {Pairs: 4, Rate: 0.5}, {Pairs: 2, Rate: 1}}, 2)
	fmt.Printf("%d pairs at %.1f, %d at %.1f, %v\n", groups[0].Pairs, groups[0].Rate, groups[1].Pairs, groups[1].Rate, err)
	// Output: 5 pairs at 0.1, 5 at 0.7, <nil>
}

func ExampleTrend() {
	// The last two of three groups are the wrong way round: 1 − 6·(0 + 1 + 1)/(3·8) is ½.
	trend, err := Trend([]PositiveRate{{Pairs: 5, Rate: 0.1}, {Pairs: 5, Rate: 0.9}, {Pairs: 5, Rate: 0.8}})
	fmt.Printf("%.2f %v\n", trend, err)
	// Output: 0.50 <nil>
}
