package metrics_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/internal/testbackend"
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
	if !(math.Abs(sphere.Std-1) <= 0.02) || !(math.Abs(sphere.Rank-dim) <= 0.1) {
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
	// Two of eight standard deviations are √½ and the others 0: √8 times their mean is ½.
	if !(math.Abs(plane.Rank-2) <= 0.01) || !(math.Abs(plane.Std-0.5) <= 0.01) {
		t.Errorf("on a circle: %+v, want std 0.5 and rank 2", plane)
	}
	if _, err := metrics.MeasureSpread([]float32{1, 2}, 2); err == nil {
		t.Error("one vector gives no error")
	}
	if _, err := metrics.MeasureSpread([]float32{float32(math.NaN()), 2, 1, 1}, 2); err == nil {
		t.Error("NaN features give no error")
	}
}

// TestCovarianceOfAGraph compares the covariance with loops in float64, and the spread that the graph's covariance gives with that of the same features on the host.
func TestCovarianceOfAGraph(t *testing.T) {
	const groups, each, dim = 6, 20, 5
	rng := rand.New(rand.NewPCG(2, 3))
	features, flat := make([][][]float32, groups), []float32{}
	for g := range features {
		for i := range each {
			row := make([]float32, dim)
			for j := range row {
				if g+i > 0 { // The first vector is 0, which has no direction and stays so.
					row[j] = float32(float64(1+g) * (0.4 + rng.NormFloat64()) / float64(1+j))
				}
			}
			features[g], flat = append(features[g], row), append(flat, row...)
		}
	}
	const n = groups * each
	var unit [n][dim]float64
	var mean, deviation [dim]float64
	for i := range unit {
		squares := 0.0
		for _, x := range flat[i*dim : (i+1)*dim] {
			squares += float64(x) * float64(x)
		}
		for j, x := range flat[i*dim : (i+1)*dim] {
			unit[i][j] = float64(x) / max(math.Sqrt(squares), 1e-30)
			mean[j] += unit[i][j] / n
		}
	}
	var want [dim][dim]float64
	for a := range dim {
		for b := range dim {
			for i := range unit {
				want[a][b] += (unit[i][a] - mean[a]) * (unit[i][b] - mean[b]) / n
			}
		}
		deviation[a] = math.Sqrt(want[a][a])
	}
	std := 0.0
	for _, sigma := range deviation {
		std += math.Sqrt(dim) * sigma / dim
	}
	host, err := metrics.MeasureSpread(flat, dim)
	if err != nil || !(math.Abs(host.Std-std) <= 1e-12) {
		t.Errorf("on the host %+v, %v, want std %g", host, err, std)
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		covariance := graph.MustNewExec(b, metrics.Covariance).MustCall(features)[0]
		got := covariance.Value().([][]float32)
		if len(got) != dim {
			t.Fatalf("%d rows", len(got))
		}
		for i, row := range got {
			for j, x := range row {
				if !(math.Abs(float64(x)-want[i][j]) <= 1e-6) {
					t.Errorf("[%d, %d] is %g, want %g", i, j, x, want[i][j])
				}
			}
		}
		if of := metrics.SpreadOf(covariance); !(math.Abs(of.Std-host.Std) <= 1e-5) || !(math.Abs(of.Rank-host.Rank) <= 1e-4) {
			t.Errorf("%+v, want %+v", *of, host)
		}
	})
}

func ExampleMeasureSpread() {
	c, err := metrics.MeasureSpread([]float32{1, 0, 0, 1, -1, 0, 0, -1}, 2)
	fmt.Printf("std %.3f, rank %.1f, %v\n", c.Std, c.Rank, err)
	// Output: std 1.000, rank 2.0, <nil>
}
