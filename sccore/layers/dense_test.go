package layers

import (
	"math"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

func TestDenseStartsAsPyTorchs(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		store := model.NewStore()
		if err := store.SetRNGStateFromSeed(2); err != nil {
			t.Fatal(err)
		}
		exec := model.MustNewExec(b, store, func(scope *model.Scope, x *Node) []*Node {
			return []*Node{Dense(scope.At("a"), x, 50, true), Dense(scope.At("b"), x, 2, false)}
		})
		defer exec.Finalize()
		y := float64s(exec.MustCall(sines[float32](1, 2, 16))[0])
		weight := float64s(store.GetVariable("/a/weight").MustValue())
		bias := float64s(store.GetVariable("/a/bias").MustValue())
		if store.GetVariable("/b/bias") != nil {
			t.Error("a bias where none was asked for")
		}
		sum, square := 0.0, 0.0
		for _, w := range append(weight, bias...) {
			if !(math.Abs(w) <= 0.25) {
				t.Fatalf("initial value %v is outside ±1/√16", w)
			}
			sum, square = sum+w, square+w*w
		}
		n := float64(len(weight) + len(bias))
		// A uniform distribution has mean 0 and variance 0.25²/3; allow four standard errors.
		if mean, variance := sum/n, square/n; !(math.Abs(mean) <= 4*0.25/math.Sqrt(3*n)) || !(math.Abs(variance/(0.25*0.25/3)-1) <= 4*0.9/math.Sqrt(n)) {
			t.Errorf("initial values have mean %v and variance %v", mean, variance)
		}
		x := float64s(sines[float32](1, 2, 16))
		want := make([]float64, 100)
		for i := range want {
			want[i] = bias[i%50]
			for k := range 16 {
				want[i] += x[i/50*16+k] * weight[k*50+i%50]
			}
		}
		checkClose(t, "Dense", y, want)
	})
}
