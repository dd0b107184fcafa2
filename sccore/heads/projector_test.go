package heads

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

func TestProjectorHasThreeLayersAndUnitOutputs(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		rng := rand.New(rand.NewPCG(7, 8))
		store := model.NewStore()
		p := Projector{HiddenDim: 6, OutDim: 4}
		project := model.MustNewExec(b, store, func(scope *model.Scope, x *Node) *Node { return p.Project(scope.In("projector"), x) })
		values64 := make([]float64, 2*3*5)
		for i := range values64 {
			values64[i] = rng.NormFloat64()
		}
		x := tensors.FromFlatDataAndDimensions(values64, 2, 3, 5)
		got := tensors.MustCopyFlatData[float64](project.MustCall(x)[0])
		parameters := 0
		for v := range store.IterVariables() {
			if strings.HasPrefix(v.Path(), "/projector/") {
				parameters += v.Shape().Size()
			}
		}
		if want := (5+1)*6 + (6+1)*6 + (6+1)*4; parameters != want {
			t.Errorf("%d parameters, want %d", parameters, want)
		}
		values := func(path string) []float64 {
			return tensors.MustCopyFlatData[float64](store.GetVariable("/projector/" + path).MustValue())
		}
		dense := func(layer string, in []float64) []float64 {
			weight, out := values(layer+"/weight"), append([]float64(nil), values(layer+"/bias")...)
			for i, v := range in {
				for j := range out {
					out[j] += v * weight[i*len(out)+j]
				}
			}
			return out
		}
		gelu := func(x []float64) []float64 {
			for i, v := range x {
				x[i] = v / 2 * (1 + math.Erf(v/math.Sqrt2))
			}
			return x
		}
		unscaled := model.MustNewExec(b, store, func(scope *model.Scope, x *Node) *Node { return p.Outputs(scope.In("projector"), x) })
		outputs := tensors.MustCopyFlatData[float64](unscaled.MustCall(x)[0])
		tokens := tensors.MustCopyFlatData[float64](x)
		for token := range 6 {
			want := dense("layer3", gelu(dense("layer2", gelu(dense("layer1", tokens[5*token:][:5])))))
			length := 0.0
			for j, v := range want {
				length += v * v
				if diff := math.Abs(outputs[4*token+j] - v); !(diff <= 1e-9) {
					t.Errorf("unscaled output %d of token %d: %g, want %g", j, token, outputs[4*token+j], v)
				}
			}
			for j := range want {
				want[j] /= math.Sqrt(length)
			}
			for j := range want {
				if diff := math.Abs(got[4*token+j] - want[j]); !(diff <= 1e-9) {
					t.Errorf("output %d of token %d: %g, want %g", j, token, got[4*token+j], want[j])
				}
			}
		}
	})
}
