package sccore

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
)

// TestLossesAreTheFieldsOfLambdas: each loss has a weight and a metric of its own, under the names of --set and of curves.
func TestLossesAreTheFieldsOfLambdas(t *testing.T) {
	lambdas, m := losses.Lambdas{ImageAlignment: 1, PatchAlignment: 2, ImageConcentration: 3, PatchConcentration: 4, Prototypes: 5},
		StepMetrics{ImageAlignment: 1, PatchAlignment: 2, ImageConcentration: 3, PatchConcentration: 4, Prototypes: 5}
	var names []string
	for i, loss := range Losses {
		if want := float64(1 + i); loss.Lambda(lambdas) != want || loss.Value(m) != want {
			t.Errorf("%s has λ %g and value %g, want %g", loss.Name, loss.Lambda(lambdas), loss.Value(m), want)
		}
		names = append(names, loss.Name)
	}
	if want := []string{"image_alignment", "patch_alignment", "image_concentration", "patch_concentration", "prototypes"}; !slices.Equal(names, want) {
		t.Errorf("losses %q, want %q", names, want)
	}
}

// TestTotal weights the losses, and leaves out those that are off, even where they are NaN.
func TestTotal(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		total := func(weights ...float64) float64 {
			return MustExecOnce(b, func(x *Node) *Node {
				var of, lambdas [len(Losses)]*Node
				var on losses.Lambdas
				factor := 1.0
				for i, weight := range weights {
					lambdas[i], of[i] = Scalar(x.Graph(), x.DType(), weight), MulScalar(x, factor)
					if *Losses[i].lambda(&on) = weight; weight == 0 {
						of[i] = MulScalar(x, math.NaN())
					}
					factor *= 10
				}
				return weightedSum(of, lambdas, on)
			}, 1.0).Value().(float64)
		}
		if got := total(slices.Repeat([]float64{1}, len(Losses))...); got != math.Floor(math.Pow10(len(Losses))/9) {
			t.Errorf("all weights 1: %v", got)
		}
		if got := total(1, 2, 3, 4, 5); got != 54321 {
			t.Errorf("weights 1 to 5: %v", got)
		}
		if got := total(0, 2, 0, 0, 0); got != 20 {
			t.Errorf("one loss: %v", got)
		}
	})
}
