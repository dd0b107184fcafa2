package layers

import (
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

func TestGroupsAreCallsOfTheirOwn(t *testing.T) {
	for _, dims := range [][]int{{6, 3}, {6, 2, 2, 3}} {
		testbackend.Each(t, func(t *testing.T, b compute.Backend) {
			x := sines[float32](5, dims...)
			run := func(f func(scope *model.Scope, x *Node) *Node) (values []float64, store *model.Store) {
				store = model.NewStore()
				exec := model.MustNewExec(b, store, f)
				defer exec.Finalize()
				return float64s(exec.MustCall(x)[0]), store
			}
			grouped, together := run(func(scope *model.Scope, x *Node) *Node {
				return BatchNorm(scope, x, 0, Norm{Train: true, Groups: 2}, true)
			})
			apart, separate := run(func(scope *model.Scope, x *Node) *Node {
				first, second := Slice(x, AxisRange(0, 3)), Slice(x, AxisRange(3, 6))
				train := Norm{Train: true}
				return Concatenate([]*Node{
					BatchNorm(scope.At("first"), first, 0, train, true),
					BatchNorm(scope.At("second"), second, 0, train, true),
				}, 0)
			})
			checkClose(t, "normalised", grouped, apart)
			for _, name := range []string{"running_mean", "running_var"} {
				first := float64s(separate.GetVariable("/first/" + name).MustValue())
				second := float64s(separate.GetVariable("/second/" + name).MustValue())
				for i := range first {
					first[i] = (first[i] + second[i]) / 2
				}
				checkClose(t, name, float64s(together.GetVariable("/"+name).MustValue()), first)
			}
		})
	}
}

func TestBatchNormRefusesWhatItCannotDo(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, c := range map[string]struct {
			dims []int
			norm Norm
		}{
			"uneven groups":        {[]int{5, 2}, Norm{Train: true, Groups: 2}},
			"one value a channel":  {[]int{4, 2}, Norm{Train: true, Groups: 4}},
			"neither rank 2 nor 4": {[]int{4, 2, 2}, Norm{}},
		} {
			exec := model.MustNewExec(b, model.NewStore(), func(scope *model.Scope, x *Node) *Node {
				return BatchNorm(scope, x, 0, c.norm, true)
			})
			if _, err := exec.Call(sines[float32](1, c.dims...)); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}

func TestBatchNormGradient(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		f := func(in []*Node) *Node {
			y, mean, variance := normalised(in[0], in[1], in[2])
			loss := ReduceAllSum(Mul(y, Sin(IotaFull(y.Graph(), y.Shape()))))
			return Add(loss, ReduceAllSum(Mul(mean, variance)))
		}
		testbackend.CheckGradient(t, b, f, 1e-6, sines[float64](1, 2, 2, 3, 2), sines[float64](2, 2), sines[float64](3, 2))
	})
}
