package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/semcon/semcon/analysis/stats"
)

// TestPrincipalComponentsFindDirections has points that vary by 5, 2 and 0.1 along three known directions.
func TestPrincipalComponentsFindDirections(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	along := [][]float64{{0.6, 0.8, 0}, {-0.8, 0.6, 0}, {0, 0, 1}}
	var rows, want [][]float64
	for range 4000 {
		at := []float64{5 * rng.NormFloat64(), 2 * rng.NormFloat64(), 0.1 * rng.NormFloat64()}
		row := []float64{10, -3, 2}
		for c, direction := range along {
			for j := range row {
				row[j] += at[c] * direction[j]
			}
		}
		rows, want = append(rows, row), append(want, at)
	}
	got, err := stats.PrincipalComponents(rows, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		// The second direction's largest entry, −0.8, is made positive.
		if len(got[i]) != 2 || !(math.Abs(got[i][0]-want[i][0]) <= 0.5) || !(math.Abs(got[i][1]+want[i][1]) <= 0.5) {
			t.Fatalf("row %d: %v, want %v with the second sign flipped", i, got[i], want[i][:2])
		}
	}
}

func TestPrincipalComponentsRefuse(t *testing.T) {
	for _, c := range []struct {
		rows [][]float64
		k    int
	}{{nil, 1}, {[][]float64{{1, 2}}, 1}, {[][]float64{{1}, {1, 2}}, 1}, {[][]float64{{1}, {2}}, 2}, {[][]float64{{1}, {2}}, 0}, {[][]float64{{1}, {math.NaN()}}, 1}} {
		if got, err := stats.PrincipalComponents(c.rows, c.k); err == nil {
			t.Errorf("%d components of %v are %v", c.k, c.rows, got)
		}
	}
}
