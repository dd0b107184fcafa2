package sccore

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
)

// golden is what torchvision's RoI-Align and SwAV's Sinkhorn–Knopp compute; testdata/golden.py made it.
type golden struct {
	RoIAlign []struct {
		Size, Samples    int
		Dims             []int
		Features, Pooled []float64
		Boxes            [][]float64
	}
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
	if len(g.RoIAlign) != 5 || len(g.Sinkhorn) != 3 {
		t.Fatalf("%d cases of RoI-Align and %d of Sinkhorn, want 5 and 3", len(g.RoIAlign), len(g.Sinkhorn))
	}
	return g
}

func TestRoIAlignAgreesWithTorchvision(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for i, c := range readGolden(t).RoIAlign {
			n, width, dim := c.Dims[0], c.Dims[2], c.Dims[3]
			features := tensors.FromFlatDataAndDimensions(c.Features, c.Dims...)
			pool := MustNewExec(b, func(features, boxes, flips *Node) *Node {
				return RoIAlign{Size: c.Size, Samples: c.Samples}.Pool(features, boxes, flips)
			})
			got := tensors.MustCopyFlatData[float64](pool.MustExec(features, c.Boxes, make([]float64, n))[0])
			agrees(t, "case", i, got, c.Pooled, 1e-9)

			// The same maps and boxes mirrored, as a flipped view has them, pool to the same.
			mirrored := make([]float64, len(c.Features))
			for at := range c.Features {
				x := at / dim % width
				mirrored[at+(width-1-2*x)*dim] = c.Features[at]
			}
			boxes := make([][]float64, n)
			flips := make([]float64, n)
			for j, box := range c.Boxes {
				boxes[j] = []float64{box[0], 1 - box[1] - box[3], box[2], box[3]}
				flips[j] = 1
			}
			got = tensors.MustCopyFlatData[float64](pool.MustExec(tensors.FromFlatDataAndDimensions(mirrored, c.Dims...), boxes, flips)[0])
			agrees(t, "mirrored case", i, got, c.Pooled, 1e-9)

			// And in the precision of training.
			narrow := make([]float32, len(c.Features))
			for at, v := range c.Features {
				narrow[at] = float32(v)
			}
			short := MustExecOnce(b, func(features, boxes, flips *Node) *Node {
				return RoIAlign{Size: c.Size, Samples: c.Samples}.Pool(features, boxes, flips)
			}, tensors.FromFlatDataAndDimensions(narrow, c.Dims...), c.Boxes, make([]float64, n))
			var wide []float64
			for _, v := range tensors.MustCopyFlatData[float32](short) {
				wide = append(wide, float64(v))
			}
			agrees(t, "float32 case", i, wide, c.Pooled, 1e-5)
		}
	})
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
