package encoder

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

// TestPositionsAreResizedAsTheCheckpointsOwnCodeDoesIt compares with the functions of DINO and timm, on the grids of patches of 16 and 8 and for
// the paper's sizes of images and local views. testdata/positions.py writes the golden file. timm computes in float32.
func TestPositionsAreResizedAsTheCheckpointsOwnCodeDoesIt(t *testing.T) {
	raw, err := os.ReadFile("testdata/positions.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Positions           Positions
		Side, Rows, Columns int
		Entries             []float64
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 16 {
		t.Fatalf("%d cases, want two patches, four sizes and two ways", len(cases))
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, c := range cases {
			grid := make([]float64, c.Side*c.Side)
			for i := range grid {
				grid[i] = math.Sin(12.9898*float64(i) + 78.233)
			}
			resized := MustExecOnce(b, func(grid *Node) *Node { return resizePositions(grid, c.Positions, c.Rows, c.Columns) },
				tensors.FromFlatDataAndDimensions(grid, c.Side, c.Side, 1))
			resized.Shape().AssertDims(c.Rows, c.Columns, 1)
			worst := 0.0
			for i, x := range tensors.MustCopyFlatData[float64](resized) {
				if i%7 == 0 {
					worst = max(worst, math.Abs(x-c.Entries[i/7]))
				}
			}
			if !(worst <= 1e-5) {
				t.Errorf("%s from %d² to %d×%d is off by %.2g", c.Positions, c.Side, c.Rows, c.Columns, worst)
			}
		}
	})
}
