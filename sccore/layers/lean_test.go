package layers

import (
	"math"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/internal/testbackend"
)

// near fails unless two sets of values differ by at most a share of the largest wanted one.
func near(t *testing.T, what string, got, want []float64, share float64) {
	t.Helper()
	most, largest := 0.0, 0.0
	for i := range want {
		most, largest = max(most, math.Abs(got[i]-want[i])), max(largest, math.Abs(want[i]))
	}
	if len(got) != len(want) || !(most <= share*largest) || largest == 0 {
		t.Errorf("%s: off by %.3g of %.3g", what, most, largest)
	}
}

// narrowInputs returns values that bfloat16 holds exactly, so that only the computation differs.
func narrowInputs(x *Node) *Node {
	return ConvertDType(ConvertDType(x, dtypes.BFloat16), dtypes.Float32)
}

// Gradients that are written by hand, and forms in half precision, agree with automatic gradients in float32, to what the dtype holds.
func TestLeanAndNarrowFormsFollowAutomaticGradients(t *testing.T) {
	wideGELU := func(x *Node) *Node { return Mul(x, MulScalar(AddScalar(Erf(MulScalar(x, math.Sqrt2/2)), 1), 0.5)) }
	wideNorm := func(x, weight, bias *Node) *Node {
		centred := Sub(x, ReduceAndKeep(x, ReduceMean, -1))
		normal := Div(centred, Sqrt(AddScalar(ReduceAndKeep(Square(centred), ReduceMean, -1), 1e-6)))
		return Add(Mul(normal, ExpandLeftToRank(weight, x.Rank())), ExpandLeftToRank(bias, x.Rank()))
	}
	wideSoftmax := func(x *Node) *Node { return Softmax(x, -1) }
	type form = func(in []*Node) *Node
	of := func(f func(x *Node) *Node) form { return func(in []*Node) *Node { return f(in[0]) } }
	norm := func(norm func(x, weight, bias *Node) *Node) form {
		return func(in []*Node) *Node { return norm(in[0], in[1], in[2]) }
	}
	leanNorm := func(x, weight, bias *Node) *Node { return LeanNorm(x, weight, bias, 1e-6) }
	half := func(x *Node) *Node { return ConvertDType(x, dtypes.BFloat16) }
	// inHalf computes a form of x in half precision.
	inHalf := func(f form) form {
		return func(in []*Node) *Node { return f(append([]*Node{half(in[0])}, in[1:]...)) }
	}
	for name, c := range map[string]struct {
		wide, lean form
		share      float64
	}{
		"GELU":              {of(wideGELU), of(LeanGELU), 1e-5},
		"LayerNorm":         {norm(wideNorm), norm(leanNorm), 1e-5},
		"softmax":           {of(wideSoftmax), of(LeanSoftmax), 1e-5},
		"GELU in half":      {of(wideGELU), inHalf(of(LeanGELU)), 0.02},
		"LayerNorm in half": {norm(wideNorm), inHalf(norm(leanNorm)), 0.02},
		"product": {func(in []*Node) *Node { return MatMul(Reshape(in[0], -1, 16), in[3]) },
			func(in []*Node) *Node { return Product(Reshape(half(in[0]), -1, 16), half(in[3])) }, 0.02},
		"contraction": {func(in []*Node) *Node { return Einsum("bik,kj->bji", in[0], in[3]) },
			func(in []*Node) *Node { return Contract("bik,kj->bji", half(in[0]), half(in[3])) }, 0.02},
		"batched": {func(in []*Node) *Node { return Einsum("bik,bjk->bij", in[0], in[0]) },
			func(in []*Node) *Node { return Contract("bik,bjk->bij", half(in[0]), half(in[0])) }, 0.02},
		"bias": {func(in []*Node) *Node { return Add(Reshape(in[0], -1, 16), InsertAxes(in[1], 0)) },
			func(in []*Node) *Node { return AddBias(Reshape(half(in[0]), -1, 16), in[1]) }, 0.02},
	} {
		t.Run(name, func(t *testing.T) {
			testbackend.Each(t, func(t *testing.T, b compute.Backend) {
				run := func(form func(in []*Node) *Node) (all [][]float64) {
					outputs, err := CallOnceN(b, func(in []*Node) []*Node {
						in = []*Node{narrowInputs(in[0]), in[1], in[2], narrowInputs(in[3])}
						y := ConvertDType(form(in), dtypes.Float32)
						direction := narrowInputs(Sin(MulScalar(ConvertDType(IotaFull(y.Graph(), y.Shape()), dtypes.Float32), 1.7)))
						loss := ReduceAllSum(Mul(y, direction))
						out := []*Node{y}
						for _, gradient := range Gradient(loss, in...) {
							if gradient == nil {
								gradient = ZerosLike(y)
							}
							out = append(out, gradient)
						}
						return out
					}, sines[float32](1, 5, 7, 16), sines[float32](2, 16), sines[float32](3, 16), sines[float32](4, 16, 6))
					if err != nil {
						t.Fatal(err)
					}
					for _, output := range outputs {
						all = append(all, float64s(output))
					}
					return all
				}
				wide, lean := run(c.wide), run(c.lean)
				for i, what := range []string{"value", "gradient in x", "in the weight", "in the bias", "in the matrix"} {
					if allZero(wide[i]) && allZero(lean[i]) {
						continue
					}
					near(t, what, lean[i], wide[i], c.share)
				}
			})
		})
	}
}

func allZero(values []float64) bool {
	for _, value := range values {
		if value != 0 {
			return false
		}
	}
	return true
}
