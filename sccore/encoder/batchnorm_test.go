package encoder_test

import (
	"math"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/encoder"
)

// checkClose compares values to 1e-5 of the largest.
func checkClose(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if d := far(got, want); !(d <= 1e-5) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestGroupsAreCallsOfTheirOwn(t *testing.T) {
	for _, dims := range [][]int{{6, 3}, {6, 2, 2, 3}} {
		testbackend.Each(t, func(t *testing.T, b compute.Backend) {
			x := waves(5, dtypes.Float32, 1, 0.5, dims...)
			run := func(f func(scope *model.Scope, x *Node) *Node) (values []float64, store *model.Store) {
				store = model.NewStore()
				exec := model.MustNewExec(b, store, f)
				defer exec.Finalize()
				return flat64(exec.MustExec(x)[0]), store
			}
			grouped, together := run(func(scope *model.Scope, x *Node) *Node {
				return encoder.BatchNorm(scope, x, encoder.Norm{Train: true, Groups: 2}, true)
			})
			apart, separate := run(func(scope *model.Scope, x *Node) *Node {
				first, second := Slice(x, AxisRange(0, 3)), Slice(x, AxisRange(3, 6))
				train := encoder.Norm{Train: true}
				return Concatenate([]*Node{
					encoder.BatchNorm(scope.At("first"), first, train, true),
					encoder.BatchNorm(scope.At("second"), second, train, true),
				}, 0)
			})
			checkClose(t, "normalised", grouped, apart)
			for _, name := range []string{"running_mean", "running_var"} {
				first := flat64(separate.GetVariable("/first/" + name).MustValue())
				second := flat64(separate.GetVariable("/second/" + name).MustValue())
				for i := range first {
					first[i] = (first[i] + second[i]) / 2
				}
				checkClose(t, name, flat64(together.GetVariable("/"+name).MustValue()), first)
			}
		})
	}
}

// Two views of one batch pass through one backbone, and others through its momentum twin, all in one graph.
func TestCallsInOneGraph(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		backbone := byName(t, "conv4-w2")
		train := encoder.Norm{Train: true}
		images := []any{waves(1, dtypes.Float32, 1, 0, 4, 8, 8, 3), waves(2, dtypes.Float32, 1, 0, 4, 8, 8, 3)}

		once, twice := seeded(t, 1), seeded(t, 1)
		oneByOne := model.MustNewExec(b, once, func(scope *model.Scope, x *Node) *Node {
			return backbone.Features(scope.At("online"), x, train)
		})
		first := flat64(oneByOne.MustExec(images[0])[0])
		second := flat64(oneByOne.MustExec(images[1])[0])

		both := model.MustNewExec(b, twice, func(scope *model.Scope, x, y *Node) []*Node {
			online := backbone.Features(scope.At("online"), x, train)
			again := backbone.Features(scope.At("online"), y, train)
			momentum := backbone.Features(scope.At("momentum"), y, train)
			return []*Node{online, again, momentum}
		})
		got := both.MustExec(images...)
		checkClose(t, "first view", flat64(got[0]), first)
		checkClose(t, "second view", flat64(got[1]), second)
		if d := far(flat64(got[2]), second); d < 0.01 {
			t.Error("the momentum encoder has the online encoder's weights")
		}
		for v := range once.IterVariables() {
			if v.Scope() == "/online/bn3" {
				checkClose(t, v.Path(), flat64(twice.GetVariable(v.Path()).MustValue()), flat64(v.MustValue()))
			}
		}
	})
}

func TestBatchNormRefusesWhatItCannotDo(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, c := range map[string]struct {
			dims []int
			norm encoder.Norm
		}{
			"uneven groups":        {[]int{5, 2}, encoder.Norm{Train: true, Groups: 2}},
			"one value a channel":  {[]int{4, 2}, encoder.Norm{Train: true, Groups: 4}},
			"neither rank 2 nor 4": {[]int{4, 2, 2}, encoder.Norm{}},
		} {
			exec := model.MustNewExec(b, model.NewStore(), func(scope *model.Scope, x *Node) *Node {
				return encoder.BatchNorm(scope, x, c.norm, true)
			})
			if _, err := exec.Exec(waves(1, dtypes.Float32, 1, 0, c.dims...)); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}

func TestDenseStartsAsPyTorchs(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		store := seeded(t, 2)
		exec := model.MustNewExec(b, store, func(scope *model.Scope, x *Node) []*Node {
			return []*Node{encoder.Dense(scope.At("a"), x, 50, true), encoder.Dense(scope.At("b"), x, 2, false)}
		})
		defer exec.Finalize()
		y := flat64(exec.MustExec(waves(1, dtypes.Float32, 1, 0, 2, 16))[0])
		weight := flat64(store.GetVariable("/a/weight").MustValue())
		bias := flat64(store.GetVariable("/a/bias").MustValue())
		if store.GetVariable("/b/bias") != nil {
			t.Error("a bias where none was asked for")
		}
		sum, square := 0.0, 0.0
		for _, w := range append(weight, bias...) {
			if math.Abs(w) > 0.25 {
				t.Fatalf("initial value %v is outside ±1/√16", w)
			}
			sum, square = sum+w, square+w*w
		}
		n := float64(len(weight) + len(bias))
		// A uniform distribution has mean 0 and variance 0.25²/3; allow four standard errors.
		if mean, variance := sum/n, square/n; math.Abs(mean) > 4*0.25/math.Sqrt(3*n) || math.Abs(variance/(0.25*0.25/3)-1) > 4*0.9/math.Sqrt(n) {
			t.Errorf("initial values have mean %v and variance %v", mean, variance)
		}
		x := flat64(waves(1, dtypes.Float32, 1, 0, 2, 16))
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
