package sccore

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/internal/testbackend"
)

// golden has results of SwAV's Sinkhorn–Knopp; testdata/golden.py writes them.
type golden struct {
	Sinkhorn []struct {
		Iterations      int
		Epsilon         float64
		Scores, Targets [][]float64
	}
}

func readGolden(t *testing.T) golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Sinkhorn) != 3 {
		t.Fatalf("%d cases of Sinkhorn, want 3", len(g.Sinkhorn))
	}
	return g
}

func TestSinkhornAgreesWithSwAV(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for i, c := range readGolden(t).Sinkhorn {
			s := Sinkhorn{Iterations: c.Iterations, Epsilon: c.Epsilon}
			got := MustExecOnce(b, s.Targets, c.Scores).Value().([][]float64)
			for j := range got {
				agrees(t, "case", i, got[j], c.Targets[j], 1e-9)
				agrees(t, "reference, case", i, sinkhornReference(s, c.Scores)[j], c.Targets[j], 1e-9)
			}
		}
	})
}

func agrees(t *testing.T, what string, number int, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s %d has %d values, want %d", what, number, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance) {
			t.Errorf("%s %d, value %d: %g, want %g", what, number, i, got[i], want[i])
			return
		}
	}
}
