package heads

import (
	"math"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

// Package losses compares trained heads with PyTorch; here are the shapes and the initial values.
func TestDINOHead(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, normed := range []bool{true, false} {
			store := model.NewStore()
			head := DINOHead{HiddenDim: 100, BottleneckDim: 9, OutDim: 50, NormLastLayer: normed}
			exec := model.MustNewExec(b, store, func(scope *model.Scope, x *Node) (first, again *Node) {
				return head.Logits(scope.At("head"), x), head.Logits(scope.At("head"), x)
			})
			tokens := tensors.FromFlatDataAndDimensions(make([]float32, 2*3*40), 2, 3, 40)
			tensors.MustMutableFlatData(tokens, func(flat []float32) {
				for i := range flat {
					flat[i] = float32(math.Sin(float64(i)))
				}
			})
			out := exec.MustCall(tokens)
			if got := out[0].Shape().Dimensions; len(got) != 3 || got[0] != 2 || got[1] != 3 || got[2] != 50 {
				t.Errorf("logits have dimensions %v", got)
			}
			for _, logit := range tensors.MustCopyFlatData[float32](out[0]) {
				if !(math.Abs(float64(logit)) <= 1.00001) {
					t.Fatalf("logit %g is no cosine", logit)
				}
			}
			spread := func(path string) float64 {
				values, squares := tensors.MustCopyFlatData[float32](store.GetVariable("/head/"+path).MustValue()), 0.0
				for _, v := range values {
					squares += float64(v) * float64(v) / float64(len(values))
				}
				return math.Sqrt(squares)
			}
			for path, want := range map[string]float64{"mlp/0/weight": 0.02, "mlp/2/weight": 0.02, "mlp/4/weight": 0.02, "mlp/4/bias": 0, "last_layer/weight_v": 1 / 3.0 / math.Sqrt(3)} {
				if got := spread(path); !(math.Abs(got-want) <= 0.15*want) {
					t.Errorf("%s has standard deviation %.4f, want %.4f", path, got, want)
				}
			}
			if gain := store.GetVariable("/head/last_layer/weight_g"); (gain == nil) != normed || !normed && math.Abs(spread("last_layer/weight_g")-1) > 1e-9 {
				t.Errorf("NormLastLayer %v: the lengths are %v", normed, gain)
			}
		}
	})
}
