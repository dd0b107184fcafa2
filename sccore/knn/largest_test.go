package knn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/internal/testbackend"
)

func TestLargestMarksWhatAStableSortPutsFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	draw := []struct {
		name   string
		number func() float32
	}{
		{"normal", func() float32 { return float32(rng.NormFloat64()) }},
		{"ties", func() float32 { return float32(rng.IntN(5)-2) / 2 }},
		{"close", func() float32 { return math.Float32frombits(math.Float32bits(0.7) + uint32(rng.IntN(4))) }},
		{"zeros", func() float32 { return []float32{0, float32(math.Copysign(0, -1))}[rng.IntN(2)] }},
		{"extreme", func() float32 {
			return []float32{math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0}[rng.IntN(5)]
		}},
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, numbers := range draw {
			rows := make([][]float32, 3)
			for i := range rows {
				for range 37 {
					rows[i] = append(rows[i], numbers.number())
				}
			}
			for _, k := range []int{1, 5, 16, 36, 37} {
				got := graph.MustExecOnce(b, func(x *graph.Node) *graph.Node { return largest(x, k) }, rows).Value().([][]bool)
				for i, row := range rows {
					order := make([]int, len(row))
					for j := range order {
						order[j] = j
					}
					slices.SortStableFunc(order, func(a, b int) int {
						switch {
						case row[a] > row[b]:
							return -1
						case row[a] < row[b]:
							return 1
						}
						return 0
					})
					want := make([]bool, len(row))
					for _, j := range order[:k] {
						want[j] = true
					}
					if !slices.Equal(got[i], want) {
						t.Errorf("%s, k %d: marked %v of %v", numbers.name, k, got[i], row)
					}
				}
			}
		}
	})
}
