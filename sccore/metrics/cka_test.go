package metrics

import (
	"math"
	"math/rand/v2"
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
	if got, err := MeasureSimilarity(x, y, 2); err != nil || math.Abs(got.CKA-1/math.Sqrt2) > 1e-12 || got.Cosine != 0.5 {
		t.Errorf("one of two axes: %+v, %v", got, err)
	}
	for _, bad := range [][]float32{nil, {1}, {1, 2}, {float32(math.NaN()), 1, 2, 3, 1, 1, 1, 1}} {
		if _, err := MeasureSimilarity(bad, bad, 2); err == nil {
			t.Errorf("%v has a similarity", bad)
		}
	}
}
