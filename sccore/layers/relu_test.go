package layers

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
)

// The values and slopes are PyTorch's: torch.relu of these inputs, and its gradient. Not a number stays so, and is not taken for 0.
func TestReLUIsPyTorchs(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		exec := MustNewExec(b, func(x *Node) (y, slope *Node) {
			y = ReLU(x)
			return y, Gradient(ReduceAllSum(y), x)[0]
		})
		defer exec.Finalize()
		out := exec.MustCall([]float32{-2, -1e-30, float32(math.Copysign(0, -1)), 0, 1e-30, 3})
		if got := tensors.MustCopyFlatData[float32](out[0]); !slices.Equal(got, []float32{0, 0, 0, 0, 1e-30, 3}) {
			t.Errorf("values %v", got)
		}
		if got := tensors.MustCopyFlatData[float32](out[1]); !slices.Equal(got, []float32{0, 0, 0, 0, 1, 1}) {
			t.Errorf("slopes %v", got)
		}
		if got := tensors.MustCopyFlatData[float32](exec.MustCall([]float32{float32(math.NaN()), 0, 0, 0, 0, 0})[0]); got[0] == got[0] {
			t.Errorf("NaN became %v", got[0])
		}
	})
}
