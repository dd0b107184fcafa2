package metrics_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/semcon/semcon/sccore/metrics"
)

func TestMeasureSpread(t *testing.T) {
	const dim = 8
	rng := rand.New(rand.NewPCG(1, 1))
	spread := func(row func() []float32) metrics.Spread {
		var rows [][]float32
		for range 4000 {
			rows = append(rows, row())
		}
		c, err := metrics.MeasureSpread(slices.Concat(rows...), dim)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	sphere := spread(func() []float32 {
		row := make([]float32, dim)
		for j := range row {
			row[j] = float32(rng.NormFloat64())
		}
		return row
	})
	if math.Abs(sphere.Std-1) > 0.02 || math.Abs(sphere.Rank-dim) > 0.1 {
		t.Errorf("on the whole sphere: %+v, want std 1 and rank %d", sphere, dim)
	}
	point := spread(func() []float32 { return []float32{1, 2, 3, 4, 0, 0, 0, 0} })
	if point.Std > 1e-6 || point.Rank != 0 {
		t.Errorf("at one point: %+v, want 0", point)
	}
	plane := spread(func() []float32 {
		angle := 2 * math.Pi * rng.Float64()
		return []float32{float32(math.Cos(angle)), float32(math.Sin(angle)), 0, 0, 0, 0, 0, 0}
	})
	if math.Abs(plane.Rank-2) > 0.01 {
		t.Errorf("on a circle: rank %g, want 2", plane.Rank)
	}
	if _, err := metrics.MeasureSpread([]float32{1, 2}, 2); err == nil {
		t.Error("one vector gives no error")
	}
	if _, err := metrics.MeasureSpread([]float32{float32(math.NaN()), 2, 1, 1}, 2); err == nil {
		t.Error("NaN features give no error")
	}
}

func ExampleMeasureSpread() {
	c, err := metrics.MeasureSpread([]float32{1, 0, 0, 1, -1, 0, 0, -1}, 2)
	fmt.Printf("std %.3f, rank %.1f, %v\n", c.Std, c.Rank, err)
	// Output: std 1.000, rank 2.0, <nil>
}
