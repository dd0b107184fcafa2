package train_test

import (
	"math"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/train"
)

// TestAverageFollowsOnline compares 50 steps with float64, and moves the online branch within the same step.
func TestAverageFollowsOnline(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		store := model.NewStore()
		scope := func(name string) *model.Scope { return store.Scope("/" + name) }
		online := store.VariableWithShape("/online/layer/weight", shapes.Make(dtypes.Float32, 2), Ones)
		store.VariableWithShape("/online/bn/running_mean", shapes.Make(dtypes.Float32, 2), Ones).SetTrainable(false)
		step := model.MustNewExec(b, store, func(_ *model.Scope, move, beta *Node) *Node {
			online.SetNodeValue(Add(online.NodeValue(move), move))
			train.UpdateEMA(scope("online"), scope("target"), beta)
			return beta
		})
		var w, want [2]float64
		w = [2]float64{1, 1}
		for i := range 50 {
			move := [2]float32{float32(math.Sin(float64(i))), 0.5}
			beta := 0.9 + 0.1*float64(i)/50
			if i == 0 {
				beta = 0 // The target starts as a copy.
			}
			step.MustCall(move[:], float32(beta))
			for j := range w {
				w[j] += float64(move[j])
				want[j] = beta*want[j] + (1-beta)*w[j]
			}
		}
		target := store.GetVariable("/target/layer/weight")
		if target == nil || target.Trainable {
			t.Fatalf("target weight is %v, want one that is not trained", target)
		}
		for j, got := range tensors.MustCopyFlatData[float32](target.MustValue()) {
			if !(math.Abs(float64(got)-want[j]) <= 1e-4) {
				t.Errorf("entry %d: %g, want %g", j, got, want[j])
			}
		}
		if n := scope("target").NumVariables(); n != 1 {
			t.Errorf("target has %d variables, want the one weight", n)
		}
	})
}
