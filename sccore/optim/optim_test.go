package optim_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/optim"
)

// trace is the trajectory of PyTorch's SGD with a cosine schedule on a quadratic, written by testdata/golden.py.
type trace struct {
	Start, Target   []float32
	Momentum, Decay float64
	Rate            float64
	Rates           []float64
	Weights         [][]float32
}

func readTrace(t *testing.T) trace {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden trace
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Weights) != 20 || len(golden.Rates) != 20 {
		t.Fatalf("golden trace has %d steps, want 20", len(golden.Weights))
	}
	return golden
}

func TestSGDFollowsPyTorch(t *testing.T) {
	golden := readTrace(t)
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		store := model.NewStore()
		weight, err := store.CreateVariable("/model/weight", tensors.FromValue(golden.Start))
		if err != nil {
			t.Fatal(err)
		}
		step, err := model.NewExec(b, store, func(scope *model.Scope, target, rate *Node) *Node {
			w := weight.NodeValue(target)
			loss := MulScalar(ReduceAllSum(Square(Square(Sub(w, target)))), 0.25)
			optim.SGD{Momentum: golden.Momentum, WeightDecay: golden.Decay}.
				Update(scope.In("optimizer"), []*model.Variable{weight}, Gradient(loss, w), rate)
			return loss
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range golden.Weights {
			if _, err := step.Call(golden.Target, float32(golden.Rates[i])); err != nil {
				t.Fatal(err)
			}
			got := tensors.MustCopyFlatData[float32](weight.MustValue())
			for j := range want {
				if !(math.Abs(float64(got[j]-want[j])) <= 1e-5) {
					t.Fatalf("step %d, weight %d: %v, PyTorch %v", i, j, got[j], want[j])
				}
			}
		}
		if n := store.Scope("/optimizer").NumVariables(); n != 1 {
			t.Errorf("%d optimizer variables, want one velocity", n)
		}
	})
}

func TestSGDRejectsForeignGradient(t *testing.T) {
	b := testbackend.Fastest(t)
	store := model.NewStore()
	weight := store.VariableWithShape("/w", shapes.Make(dtypes.Float32, 3), Zeros)
	step := model.MustNewExec(b, store, func(scope *model.Scope, gradient *Node) *Node {
		optim.SGD{}.Update(scope.In("optimizer"), []*model.Variable{weight}, []*Node{gradient}, ScalarOne(gradient.Graph(), dtypes.Float32))
		return gradient
	})
	if _, err := step.Call([]float32{1, 2}); err == nil {
		t.Error("a gradient of shape [2] updated a variable of shape [3]")
	}
}

func TestCosineFollowsPyTorch(t *testing.T) {
	golden := readTrace(t)
	for step, want := range golden.Rates {
		if got := optim.Cosine(step, len(golden.Rates), 0, golden.Rate, 0); !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("step %d: rate %g, PyTorch %g", step, got, want)
		}
	}
}

func TestCosineShape(t *testing.T) {
	const total, warmup = 100, 10
	at := func(step int) float64 { return optim.Cosine(step, total, warmup, 2, 0.5) }
	for step := 1; step < warmup; step++ {
		if !(at(step) > at(step-1)) {
			t.Errorf("warm-up does not rise at step %d", step)
		}
	}
	if at(warmup-1) != 2 || at(warmup) != 2 {
		t.Errorf("peak is %g then %g, want 2", at(warmup-1), at(warmup))
	}
	for step := warmup + 1; step <= total; step++ {
		if !(at(step) < at(step-1)) {
			t.Errorf("rate does not fall at step %d", step)
		}
	}
	if at(total) != 0.5 || at(total+7) != 0.5 {
		t.Errorf("final rate is %g, then %g, want 0.5", at(total), at(total+7))
	}
}
