package sccore

import (
	"math"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/train"
)

// stepGradients are the losses of a small step in float32, by name, and the gradients of all weights, concatenated.
func stepGradients(t *testing.T, b compute.Backend, change func(s *step)) (losses map[string]float64, gradients []float64) {
	t.Helper()
	// The step has no L_sc, which jumps at the smallest difference because it depends on the order of similarities; and no local views and positives,
	// which XLA compiles for a minute. The switches are the encoder's, and one graph of views tests them as well as three.
	s, given := smallStep(func(c *Config) {
		c.Lambdas.PatchConcentration, c.Lambdas.ImageConcentration, c.Views.Locals = 0, 0, 0
	})
	images := given[inGlobals].Shape().Dim(0) / s.Views.Globals
	given[inPixels] = tensors.FromFlatDataAndDimensions(
		tensors.MustCopyFlatData[uint8](given[inPixels])[:images*s.ImageSize*s.ImageSize*3], images, s.ImageSize, s.ImageSize, 3)
	s.dtype, s.vit.Dim = dtypes.Float32, 16 // Of a head 8: fused attention takes multiples.
	change(&s)
	store := model.NewStore()
	if err := store.SetRNGStateFromSeed(11); err != nil {
		t.Fatal(err)
	}
	var names []string
	exec := model.MustNewExec(b, store, func(scope *model.Scope, inputs []*Node) []*Node {
		total, reports := s.forward(scope, train.ByName(s.inputs(), inputs))
		_, all := train.Gradients(scope, total, onlineScope)
		names = nil
		for _, report := range reports {
			if report.Node.IsScalar() {
				names, all = append(names, report.Name), append(all, report.Node)
			}
		}
		return all
	})
	defer exec.Finalize()
	var args []any
	for _, in := range s.inputs() {
		// Each backend has its own copy.
		value, err := given[in.Name].LocalClone()
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, value)
	}
	out := exec.MustCall(args...)
	variables := train.Learnt(store.RootScope(), onlineScope)
	losses = map[string]float64{}
	for i, name := range names {
		losses[name] = float64(tensors.ToScalar[float32](out[len(variables)+i]))
	}
	for i, variable := range variables {
		if variable.DType() != dtypes.Float32 || out[i].DType() != dtypes.Float32 {
			t.Errorf("%s is kept in %s, its gradient in %s", variable.Path(), variable.DType(), out[i].DType())
		}
		for _, x := range tensors.MustCopyFlatData[float32](out[i]) {
			gradients = append(gradients, float64(x))
		}
	}
	return losses, gradients
}

// inBFloat16 is what newStep does with Config.BF16.
func inBFloat16(s *step) {
	s.BF16, s.vit.ComputeDType, s.ImageHead.ComputeDType, s.PatchHead.ComputeDType = true, dtypes.BFloat16, dtypes.BFloat16, dtypes.BFloat16
}

// TestSwitchesOfTheStepKeepItsGradient compares the plain step with the step under gradient checkpointing and in bfloat16. bfloat16 rounds to 2⁻⁹ of
// a number, and a gradient passes through dozens of roundings that differ.
func TestSwitchesOfTheStepKeepItsGradient(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		wantLosses, want := stepGradients(t, b, func(*step) {})
		length := func(x []float64) (sum float64) {
			for _, v := range x {
				sum = math.Hypot(sum, v)
			}
			return sum
		}
		for name, c := range map[string]struct {
			change                   func(s *step)
			losses, gradient, atWork float64 // Largest relative differences, and the smallest one of the gradient that shows that the switch does something.
		}{
			"checkpoint":          {func(s *step) { s.vit.GradientCheckpointing = true }, 1e-5, 1e-5, 0},
			"bfloat16":            {inBFloat16, 0.02, 0.03, 1e-4},
			"bfloat16 checkpoint": {func(s *step) { inBFloat16(s); s.vit.GradientCheckpointing = true }, 0.02, 0.03, 1e-4},
		} {
			losses, got := stepGradients(t, b, c.change)
			for loss, x := range losses {
				if !(math.Abs(x-wantLosses[loss]) <= c.losses*max(1, math.Abs(wantLosses[loss]))) {
					t.Errorf("%s: %s is %g, %g in the plain step", name, loss, x, wantLosses[loss])
				}
			}
			if len(losses) < 5 || len(got) != len(want) {
				t.Fatalf("%s: %d losses and %d entries of gradients, %d in the plain step", name, len(losses), len(got), len(want))
			}
			apart := make([]float64, len(want))
			for i := range want {
				apart[i] = got[i] - want[i]
			}
			off := length(apart) / length(want)
			t.Logf("%s: the gradient is off by %.2g of its norm", name, off)
			if !(off <= c.gradient && off >= c.atWork) {
				t.Errorf("%s: the gradient is off by %g of its norm, want between %g and %g", name, off, c.atWork, c.gradient)
			}
		}
	})
}
