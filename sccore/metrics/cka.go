package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Similarity compares two encoders by their features of the same places.
type Similarity struct {
	// CKA is the linear centred kernel alignment (Kornblith et al. 2019, eq. 3), in [0, 1]: 1 if the features agree up to rotation, scale and shift, near 0 if
	// distances between places have nothing in common. It is 0 if the features of one encoder do not vary.
	CKA float64
	// Cosine is the mean cosine of the two features of a place, in [−1, 1]. A rotation of all features lowers it too.
	Cosine float64
	// Kept is the share of a place's ten nearest others, by cosine, that are the same under both encoders, in [0, 1]; about 10/N if they have nothing in
	// common. It sees fine differences that vanish in CKA beside a few directions of large variance.
	Kept float64
}

// nearestKept is the number of neighbours that Kept compares, and mostCompared the number of places; it takes time quadratic in them.
const (
	nearestKept  = 10
	mostCompared = 1024
)

// MeasureSimilarity compares features, [N, dim] row by row each, with N ≥ 2, in float64.
func MeasureSimilarity(a, b []float32, dim int) (Similarity, error) {
	if dim < 1 || len(a) != len(b) || len(a)%dim != 0 || len(a) < 2*dim {
		return Similarity{}, fmt.Errorf("similarity: %d and %d values of features of %d, want as many of each, and two features at least", len(a), len(b), dim)
	}
	n := len(a) / dim
	cosine := 0.0
	for i := range n {
		var ab, aa, bb float64
		for j := range dim {
			x, y := float64(a[i*dim+j]), float64(b[i*dim+j])
			ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
		}
		if aa*bb > 0 {
			cosine += ab / math.Sqrt(aa) / math.Sqrt(bb) / float64(n)
		}
	}
	x, y := centred(a, n, dim), centred(b, n, dim)
	var xy, xx, yy mat.Dense
	xy.Mul(y.T(), x)
	xx.Mul(x.T(), x)
	yy.Mul(y.T(), y)
	s := Similarity{Cosine: cosine}
	between, within := mat.Norm(&xy, 2), mat.Norm(&xx, 2)*mat.Norm(&yy, 2)
	if math.IsNaN(between+within) || math.IsInf(between+within, 0) || math.IsNaN(cosine) {
		return Similarity{}, fmt.Errorf("similarity: the features are not finite")
	}
	if within > 0 {
		s.CKA = between * between / within
	}
	s.Kept = keptNeighbours(a, b, n, dim)
	return s, nil
}

// keptNeighbours compares the nearest neighbours of places that are evenly spread.
func keptNeighbours(a, b []float32, n, dim int) float64 {
	count := min(n, mostCompared)
	k := min(nearestKept, count-1)
	var nearest [2][][]int
	for side, values := range [][]float32{a, b} {
		unit := mat.NewDense(count, dim, nil)
		for i := range count {
			from, norm := i*n/count*dim, 0.0
			for _, x := range values[from : from+dim] {
				norm += float64(x) * float64(x)
			}
			for d, x := range values[from : from+dim] {
				unit.Set(i, d, float64(x)/math.Sqrt(max(norm, 1e-300)))
			}
		}
		var cosines mat.Dense
		cosines.Mul(unit, unit.T())
		for i := range count {
			order := make([]int, 0, count-1)
			for j := range count {
				if j != i {
					order = append(order, j)
				}
			}
			slices.SortFunc(order, func(x, y int) int { return cmp.Or(cmp.Compare(cosines.At(i, y), cosines.At(i, x)), x-y) })
			nearest[side] = append(nearest[side], order[:k])
		}
	}
	same := 0
	for i := range count {
		for _, j := range nearest[0][i] {
			if slices.Contains(nearest[1][i], j) {
				same++
			}
		}
	}
	return float64(same) / float64(count*k)
}

// centred returns features with the mean of each dimension subtracted.
func centred(values []float32, n, dim int) *mat.Dense {
	out := mat.NewDense(n, dim, nil)
	for j := range dim {
		mean := 0.0
		for i := range n {
			mean += float64(values[i*dim+j]) / float64(n)
		}
		for i := range n {
			out.Set(i, j, float64(values[i*dim+j])-mean)
		}
	}
	return out
}
