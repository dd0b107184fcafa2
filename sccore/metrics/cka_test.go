package metrics

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSimilarity(t *testing.T) {
	const n, dim = 500, 4
	rng := rand.New(rand.NewPCG(1, 2))
	a := make([]float32, n*dim)
	for i := range a {
		a[i] = float32(rng.NormFloat64() * float64(1+i%dim))
	}
	change := func(f func(row []float32) []float32) []float32 {
		var out []float32
		for i := range n {
			out = append(out, f(a[i*dim:(i+1)*dim])...)
		}
		return out
	}
	for name, c := range map[string]struct {
		b           []float32
		cka, cosine float64
	}{
		"itself":  {a, 1, 1},
		"scaled":  {change(func(r []float32) []float32 { return []float32{3 * r[0], 3 * r[1], 3 * r[2], 3 * r[3]} }), 1, 1},
		"negated": {change(func(r []float32) []float32 { return []float32{-r[0], -r[1], -r[2], -r[3]} }), 1, -1},
		"rotated": {change(func(r []float32) []float32 { return []float32{-r[1], r[0], -r[3], r[2]} }), 1, 0},
		"point":   {change(func([]float32) []float32 { return []float32{0, 0, 0, 0} }), 0, 0},
		"others":  {change(func([]float32) []float32 { return []float32{float32(rng.NormFloat64()), 0, 0, 0} }), 0, math.NaN()},
	} {
		got, err := MeasureSimilarity(a, c.b, dim)
		if same := c.cka == 1; same && got.Kept < 0.999 || !same && got.Kept > 0.2 {
			t.Errorf("%s: %g of the neighbours are kept", name, got.Kept)
		}
		if err != nil || math.Abs(got.CKA-c.cka) > 0.02 || !math.IsNaN(c.cosine) && math.Abs(got.Cosine-c.cosine) > 1e-6 {
			t.Errorf("%s: %+v, %v, want CKA %g and cosine %g", name, got, err, c.cka, c.cosine)
		}
	}
	// By hand: x = ±(1, 0), ±(0, 1) and its first axis alone.
	x, y := []float32{1, 0, -1, 0, 0, 1, 0, -1}, []float32{1, 0, -1, 0, 0, 0, 0, 0}
	if got, err := MeasureSimilarity(x, y, 2); err != nil || !(math.Abs(got.CKA-1/math.Sqrt2) <= 1e-12) || got.Cosine != 0.5 {
		t.Errorf("one of two axes: %+v, %v", got, err)
	}
	for _, bad := range [][]float32{nil, {1}, {1, 2}, {float32(math.NaN()), 1, 2, 3, 1, 1, 1, 1}} {
		if _, err := MeasureSimilarity(bad, bad, 2); err == nil {
			t.Errorf("%v has a similarity", bad)
		}
	}
}

// TestKeptNeighboursByBruteForce has two encoders that agree in about half of the ten nearest neighbours. Of 2000 places 1024 are compared, evenly spread.
func TestKeptNeighboursByBruteForce(t *testing.T) {
	const dim = 4
	for _, n := range []int{7, 300, 2000} {
		rng := rand.New(rand.NewPCG(uint64(n), 5))
		a, b := make([]float32, n*dim), make([]float32, n*dim)
		for i := range a {
			a[i] = float32(rng.NormFloat64() + 0.3)
			b[i] = a[i] + float32(0.25*rng.NormFloat64())
		}
		if n == 7 { // All six others are the nearest, whatever the features.
			for i := range b {
				b[i] = float32(rng.NormFloat64())
			}
		}
		places := min(n, 1024)
		nearest := func(features []float32, i int) (others []int) {
			cosine := func(j int) float64 {
				x, y := features[i*n/places*dim:], features[j*n/places*dim:]
				var xy, xx, yy float64
				for c := range dim {
					u, v := float64(x[c]), float64(y[c])
					xy, xx, yy = xy+u*v, xx+u*u, yy+v*v
				}
				return xy / math.Sqrt(xx*yy)
			}
			cosines := make([]float64, places)
			for j := range cosines {
				cosines[j] = cosine(j)
				if j != i {
					others = append(others, j)
				}
			}
			slices.SortFunc(others, func(x, y int) int { return cmp.Compare(cosines[y], cosines[x]) })
			return others[:min(10, places-1)]
		}
		kept, all := 0, 0
		for i := range places {
			ofB := nearest(b, i)
			for _, j := range nearest(a, i) {
				if all++; slices.Contains(ofB, j) {
					kept++
				}
			}
		}
		want := float64(kept) / float64(all)
		if n > 7 && (want < 0.3 || want > 0.7) {
			t.Errorf("%d places: the brute force keeps %g, which tests little", n, want)
		}
		if got, err := MeasureSimilarity(a, b, dim); err != nil || !(math.Abs(got.Kept-want) <= 1e-12) {
			t.Errorf("%d places: %g of the neighbours are kept, want %g, %v", n, got.Kept, want, err)
		}
	}
}
