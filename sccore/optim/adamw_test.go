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

// adamwTrace is the trajectory of PyTorch's AdamW with DINO's schedules on a quartic, written by testdata/adamw.py.
type adamwTrace struct {
	Limit                     float64
	Rates, Decays, Momenta    []float64
	StartWeight, TargetWeight [][]float32
	StartBias, TargetBias     []float32
	Weight, Bias              [][]float32
	Norms                     []float64
}

func readAdamWTrace(t *testing.T) adamwTrace {
	t.Helper()
	raw, err := os.ReadFile("testdata/adamw.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden adamwTrace
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Weight) != 20 || len(golden.Norms) != 20 {
		t.Fatalf("golden trace has %d steps, want 20", len(golden.Weight))
	}
	return golden
}

func TestAdamWFollowsPyTorch(t *testing.T) {
	golden := readAdamWTrace(t)
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		store := model.NewStore()
		create := func(path string, value any) *model.Variable {
			variable, err := store.CreateVariable(path, tensors.MustFromAnyValue(value))
			if err != nil {
				t.Fatal(err)
			}
			return variable
		}
		variables := []*model.Variable{create("/model/weight", golden.StartWeight), create("/model/bias", golden.StartBias)}
		step := model.MustNewExec(b, store, func(scope *model.Scope, weightTarget, biasTarget, rate, decay *Node) *Node {
			w, bias := variables[0].NodeValue(rate), variables[1].NodeValue(rate)
			quartic := func(x *Node) *Node { return MulScalar(ReduceAllSum(Square(Square(x))), 0.25) }
			loss := Add(quartic(Sub(w, weightTarget)), quartic(Sub(bias, biasTarget)))
			gradients, norm := optim.ClipByGlobalNorm(Gradient(loss, w, bias), golden.Limit)
			optim.DefaultAdamW().Update(scope.In("optimizer"), variables, gradients, rate, decay)
			return norm
		})
		for i := range golden.Rates {
			norm := step.MustCall(golden.TargetWeight, golden.TargetBias, float32(golden.Rates[i]), float32(golden.Decays[i]))[0]
			if got := float64(norm.Value().(float32)); !(math.Abs(got-golden.Norms[i]) <= 1e-4*golden.Norms[i]) {
				t.Errorf("step %d: gradient norm %v, PyTorch %v", i, got, golden.Norms[i])
			}
			for v, want := range [][]float32{golden.Weight[i], golden.Bias[i]} {
				for j, got := range tensors.MustCopyFlatData[float32](variables[v].MustValue()) {
					if !(math.Abs(float64(got-want[j])) <= 1e-5) {
						t.Fatalf("step %d, %s %d: %v, PyTorch %v", i, variables[v].Name(), j, got, want[j])
					}
				}
			}
		}
		if n := store.Scope("/optimizer").NumVariables(); n != 5 {
			t.Errorf("%d optimizer variables, want two moments of two variables and the step", n)
		}
	})
}

func TestCosineFollowsDINO(t *testing.T) {
	golden := readAdamWTrace(t)
	for name, schedule := range map[string]struct {
		start, final float64
		want         []float64
	}{"rate": {3e-2, 1e-3, golden.Rates}, "decay": {0.24, 2.4, golden.Decays}, "momentum": {0.9, 1, golden.Momenta}} {
		for step, want := range schedule.want {
			if got := optim.Cosine(step, len(schedule.want), 0, schedule.start, schedule.final); !(math.Abs(got-want) <= 1e-12) {
				t.Errorf("%s at step %d: %g, DINO %g", name, step, got, want)
			}
		}
	}
}

func TestDecaysSparesBiasesAndNorms(t *testing.T) {
	store := model.NewStore()
	for path, c := range map[string]struct {
		dims []int
		want bool
	}{
		"/blocks/0/attn/qkv/weight": {[]int{4, 12}, true}, "/pos_embed": {[]int{1, 5, 4}, true}, "/prototypes": {[]int{2, 3, 3, 4}, true},
		"/blocks/0/attn/qkv/bias": {[]int{12}, false}, "/norm/weight": {[]int{4}, false}, "/head/bias": {[]int{1, 12}, false},
	} {
		variable := store.VariableWithShape(path, shapes.Make(dtypes.Float32, c.dims...), Zeros)
		if got := optim.Decays(variable); got != c.want {
			t.Errorf("%s %v decays: %t, want %t", path, c.dims, got, c.want)
		}
	}
}

func TestClippingLeavesShortGradientsAndBoundsLongOnes(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		clip := MustNewExec(b, func(x, y *Node) []*Node {
			clipped, norm := optim.ClipByGlobalNorm([]*Node{x, y}, 1)
			return append(clipped, norm)
		})
		for _, c := range []struct{ x, y, factor, norm float64 }{{0.3, 0.4, 1, 0.5}, {30, 40, 1 / (50 + 1e-6), 50}, {0, 0, 1, 0}} {
			out := clip.MustCall([]float64{c.x}, [][]float64{{c.y}})
			x, y, norm := out[0].Value().([]float64)[0], out[1].Value().([][]float64)[0][0], out[2].Value().(float64)
			if !(math.Abs(x-c.x*c.factor) <= 1e-12) || !(math.Abs(y-c.y*c.factor) <= 1e-12) || !(math.Abs(norm-c.norm) <= 1e-12) {
				t.Errorf("(%g, %g) is clipped to (%g, %g) with norm %g", c.x, c.y, x, y, norm)
			}
		}
		if out := clip.MustCall([]float64{math.NaN()}, [][]float64{{1}}); !math.IsNaN(out[2].Value().(float64)) {
			t.Error("a NaN does not show in the norm")
		}
	})
}

// TestAccumulatedPartsAreTheWholeBatch takes two rounds, so that the sums must be reset between them.
func TestAccumulatedPartsAreTheWholeBatch(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		store := model.NewStore()
		weight := store.VariableWithShape("/w", shapes.Make(dtypes.Float64, 2), Ones)
		variables := []*model.Variable{weight}
		gradient := func(x *Node) []*Node {
			w := weight.NodeValue(x)
			return Gradient(ReduceAllMean(Square(ReduceSum(Mul(x, InsertAxes(w, 0)), 1))), w)
		}
		whole := model.MustNewExec(b, store, func(_ *model.Scope, x *Node) *Node { return gradient(x)[0] })
		add := model.MustNewExec(b, store, func(scope *model.Scope, x *Node) *Node {
			optim.Accumulate(scope.In("accumulator"), variables, gradient(x))
			return x
		})
		mean := model.MustNewExec(b, store, func(scope *model.Scope, g *Graph) *Node {
			return optim.Accumulated(scope.In("accumulator"), g, variables, 2)[0]
		})
		for round := range 2 {
			parts := [][][]float64{{{1, 2}, {3, float64(round)}}, {{-1, 0.5}, {2, 2}}}
			for _, part := range parts {
				add.MustCall(part)
			}
			want := whole.MustCall(append(parts[0], parts[1]...))[0].Value().([]float64)
			for i, got := range mean.MustCall()[0].Value().([]float64) {
				if !(math.Abs(got-want[i]) <= 1e-12) {
					t.Errorf("round %d, entry %d: %g from parts, %g from the whole", round, i, got, want[i])
				}
			}
		}
	})
}
