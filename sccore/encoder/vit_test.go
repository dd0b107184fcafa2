package encoder_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/settings"
	"gonum.org/v1/gonum/stat"
)

func vit(t testing.TB, name string) encoder.ViT {
	t.Helper()
	v, err := encoder.ViTByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// later has every part of later transformers.
var later = encoder.ViT{
	PatchSize: 2, Dim: 8, Depth: 2, NumHeads: 2, GridSize: 0, Positions: encoder.DINOPositions, Prototypes: 3,
	Registers: 2, LayerScale: true, MLPWidth: 6, SwiGLU: true, QKNorm: true, Bias: encoder.QVBias, RoPE: encoder.RoPE{Base: 100}, Epsilon: 1e-5,
}

// smallest is a transformer with a filter, small enough for a finite-difference test.
var smallest = encoder.ViT{PatchSize: 2, Dim: 4, Depth: 2, NumHeads: 2, GridSize: 2, Positions: encoder.DINOPositions, Prototypes: 3}

func TestViTsHaveTheWeightsOfTheirTwins(t *testing.T) {
	engine, err := backend.OpenConfig(backend.Go) // Only the graph is built.
	if err != nil {
		t.Fatal(err)
	}
	// Counted in timm's vit_small_patch16_224, vit_base_patch16_224 and vit_base_patch8_224 without a head, and by hand.
	const block = 64*192 + 192 + 64*64 + 64 + 2*4*64*64 + 5*64 + 4*64
	for name, want := range map[string]int{
		"vit-s16": 21_665_664, "vit-b16": 85_798_656, "vit-b8": 85_807_872, "vit-tiny": 64 + 37*64 + 192*64 + 64 + 3*block + 2*64,
	} {
		v := vit(t, name)
		for _, prototypes := range []int{0, 64} {
			v.Prototypes = prototypes
			store := seeded(t, 1)
			exec := model.MustNewExec(engine, store, func(scope *model.Scope, images *Node) *Node { return v.Tokens(scope, images).Class })
			if _, err := exec.Compile(ramp(1, v.PatchSize, v.PatchSize, 3).Shape()); err != nil {
				t.Fatal(err)
			}
			built := map[string][]int{}
			for variable := range store.IterVariables() {
				if variable.Trainable {
					built[variable.Path()] = variable.Shape().Dimensions
				}
			}
			size := 0
			for _, w := range v.Weights() {
				size += w.Size()
				if !slices.Equal(built["/"+w.Path], w.Shape) {
					t.Errorf("%s: %s is listed with shape %v and built with %v", name, w.Path, w.Shape, built["/"+w.Path])
				}
			}
			if len(built) != len(v.Weights()) {
				t.Errorf("%s: %d weights listed, %d built", name, len(v.Weights()), len(built))
			}
			d := v.Dim // The filter: prototypes, a norm, three projections and one from twice the width.
			if filtered := want + 64*9*d + 2*d + 3*(d*d+d) + 2*d*d + d; (prototypes == 0 && size != want) || (prototypes > 0 && size != filtered) {
				t.Errorf("%s with %d prototypes has %d parameters, want %d, or %d with", name, prototypes, size, want, filtered)
			}
		}
	}
}

// TestControlsOfTheFilter: a residual block in the filter's place has as many parameters, moves each patch by gelu(norm(x)·W1)·W2 of that patch alone, and leaves
// [CLS] as it is; frozen prototypes are no trainable weights, and all else is as with the filter.
func TestControlsOfTheFilter(t *testing.T) {
	for _, of := range []struct {
		name       string
		prototypes int
	}{{"vit-s16", 64}, {"vit-tiny", 16}, {"vit-s14-grid37-ls", 64}, {"vit-tiny", 4}} {
		v := vit(t, of.name)
		v.Prototypes = of.prototypes
		counts := map[encoder.Filter]int{}
		for _, kind := range []encoder.Filter{encoder.ObjectAware, encoder.FrozenPrototypes, encoder.ResidualBlock} {
			v.Filter = kind
			for _, w := range v.Weights() {
				counts[kind] += w.Size()
				if strings.HasSuffix(w.Path, "filter/fc1/weight") && v.PrototypesOf(w.Shape[1]) != of.prototypes {
					t.Errorf("%s: a block of width %d stands for %d prototypes, want %d", of.name, w.Shape[1], v.PrototypesOf(w.Shape[1]), of.prototypes)
				}
			}
		}
		if counts[encoder.ResidualBlock] != counts[encoder.ObjectAware] || counts[encoder.FrozenPrototypes] != counts[encoder.ObjectAware] {
			t.Errorf("%s with %d prototypes: parameters %v", of.name, of.prototypes, counts)
		}
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		run := func(v encoder.ViT) (tokens []float64, store *model.Store) {
			store = seeded(t, 7)
			tokensOf(t, b, v, store) // Makes the variables.
			for k, w := range v.Weights() {
				if strings.Contains(w.Path, "mlp/") { // So that the block's output is what the filter leaves.
					k = -1
				}
				value := waves(k, dtypes.Float64, 0.5, 0.1, w.Shape...)
				if k < 0 {
					value = tensors.FromShape(value.Shape())
				}
				if err := store.GetVariable("/" + w.Path).SetValue(value); err != nil {
					t.Fatal(err)
				}
			}
			return tokensOf(t, b, v, store), store
		}
		v, none := smallest, smallest
		v.Filter, none.Prototypes = encoder.ResidualBlock, 0
		with, store := run(v)
		value := func(name string) []float64 { return flat64(store.GetVariable("/blocks/1/filter/" + name).MustValue()) }
		weight, bias, fc1, fc2 := value("norm/weight"), value("norm/bias"), value("fc1/weight"), value("fc2/weight")
		before := tokensOf(t, b, none, store)
		tokens, dim := len(with)/2/v.Dim, v.Dim
		for token := range 2 * tokens {
			x, want := before[token*dim:(token+1)*dim], slices.Clone(before[token*dim:(token+1)*dim])
			if token%tokens > 0 {
				mean, variance := stat.PopMeanVariance(x, nil)
				for j := range len(fc1) / dim {
					sum := 0.0
					for i := range dim {
						sum += ((x[i]-mean)/math.Sqrt(variance+1e-6)*weight[i] + bias[i]) * fc1[i*len(fc1)/dim+j]
					}
					hidden := sum * (1 + math.Erf(sum/math.Sqrt2)) / 2
					for i := range dim {
						want[i] += hidden * fc2[j*dim+i]
					}
				}
			}
			if off := far(with[token*dim:(token+1)*dim], want); !(off <= 1e-6) {
				t.Errorf("token %d is off by %g", token, off)
			}
		}
		v.Filter = encoder.FrozenPrototypes
		frozen, store := run(v)
		v.Filter = encoder.ObjectAware
		learnt, other := run(v)
		if far(frozen, learnt) != 0 {
			t.Error("frozen prototypes have other tokens")
		}
		const prototypes = "/blocks/1/filter/prototypes"
		if store.GetVariable(prototypes).Trainable || !other.GetVariable(prototypes).Trainable || !store.GetVariable("/blocks/1/filter/q/weight").Trainable {
			t.Error("other weights than frozen prototypes are frozen")
		}
	})
}

// tokensOf are the tokens of two small images after the last block.
func tokensOf(t *testing.T, b compute.Backend, v encoder.ViT, store *model.Store) []float64 {
	t.Helper()
	exec := model.MustNewExec(b, store, func(scope *model.Scope, images *Node) []*Node {
		tokens := v.Tokens(scope, images)
		return []*Node{tokens.Blocks[v.Depth-1], tokens.Patches} // The Go engine wants the last node among the outputs.
	})
	defer exec.Finalize()
	return flat64(exec.MustCall(waves(1000, dtypes.Float64, 1, 0, 2, 6, 4, 3))[0])
}

func TestViTRefusesWhatMakesNoSense(t *testing.T) {
	if _, err := encoder.ViTByName("vit-q16"); err == nil {
		t.Error("there is a vit-q16")
	}
	for name, change := range map[string]func(v *encoder.ViT){
		"heads":     func(v *encoder.ViT) { v.NumHeads = 3 },
		"depth":     func(v *encoder.ViT) { v.Depth = 0 },
		"positions": func(v *encoder.ViT) { v.Positions = "linear" },
		"compute":   func(v *encoder.ViT) { v.ComputeDType = dtypes.Int32 },
		"filter":    func(v *encoder.ViT) { v.Prototypes = -1 },
		"control":   func(v *encoder.ViT) { v.Filter = "none" },
		"place":     func(v *encoder.ViT) { v.BlocksAfterFilter = 2 },
		"no place":  func(v *encoder.ViT) { v.BlocksAfterFilter = -1 },
		"grid":      func(v *encoder.ViT) { v.GridSize = 0 },
		"bias":      func(v *encoder.ViT) { v.Bias = "key" },
		"rope":      func(v *encoder.ViT) { v.RoPE.Base = 100 }, // Heads of width 2.
		"registers": func(v *encoder.ViT) { v.Registers = -1 },
		"epsilon":   func(v *encoder.ViT) { v.Epsilon = -1 },
	} {
		v := smallest
		change(&v)
		if err := settings.Check(v); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	unfiltered := smallest
	unfiltered.Prototypes, unfiltered.BlocksAfterFilter = 0, 7
	if err := settings.Check(unfiltered); err != nil {
		t.Errorf("the place of no filter: %v", err)
	}
}

// tokensAndGradients runs a transformer with the weights of a seed and returns its tokens and the gradient of every weight.
func tokensAndGradients(t *testing.T, b compute.Backend, v encoder.ViT, images *tensors.Tensor) [][]float64 {
	t.Helper()
	store := seeded(t, 7)
	exec := model.MustNewExec(b, store, func(scope *model.Scope, images *Node) []*Node {
		tokens := v.Tokens(scope, images)
		toward := func(x *Node) *Node { return ReduceAllSum(Mul(x, Sin(IotaFull(x.Graph(), x.Shape())))) }
		loss := Add(toward(tokens.Class), toward(tokens.Patches))
		var values []*Node
		for _, w := range v.Weights() {
			values = append(values, store.GetVariable("/"+w.Path).NodeValue(images))
		}
		return append([]*Node{tokens.Class, tokens.Patches}, Gradient(loss, values...)...)
	})
	defer exec.Finalize()
	var all [][]float64
	for _, x := range exec.MustCall(images) {
		all = append(all, flat64(x))
	}
	return all
}

func TestCheckpointingChangesNothing(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		kept, recomputed := later, later
		recomputed.GradientCheckpointing = true
		for after := range later.Depth {
			kept.BlocksAfterFilter, recomputed.BlocksAfterFilter = after, after
			want := tokensAndGradients(t, b, kept, normal(2, 6, 4, 3))
			for i, got := range tokensAndGradients(t, b, recomputed, normal(2, 6, 4, 3)) {
				// The gradient of the filter's key bias is only rounding, because softmax does not depend on it.
				if d := far(got, want[i]); !(d <= 1e-5) && !(max(largest(got), largest(want[i])) <= 1e-9) {
					t.Errorf("%d blocks after the filter: output %d is off by %.2g", after, i, d)
				}
			}
		}
	})
}

// largest returns the largest magnitude.
func largest(values []float64) float64 { return max(slices.Max(values), -slices.Min(values)) }

func TestBFloat16FollowsFloat32(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		exact := smallest
		exact.Depth, exact.Dim = 1, 16 // Of a head 8: fused attention takes multiples.
		coarse := exact
		coarse.ComputeDType = dtypes.BFloat16
		want := tokensAndGradients(t, b, exact, normal(2, 6, 4, 3))
		for i, got := range tokensAndGradients(t, b, coarse, normal(2, 6, 4, 3)) {
			// bfloat16 has 8 bits; flat64 fails on any dtype but float32 here, so tokens and gradients are float32.
			// Some gradients are tiny, and that of a key's bias is only rounding, because softmax does not depend on it.
			if d := far(got, want[i]); !(d <= 0.1) && !(largest(want[i]) <= 0.1) || i < 2 && d == 0 {
				t.Errorf("output %d is off by %.2g", i, d)
			}
		}
	})
}

func TestAttentionMapsSumToOne(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		exec := model.MustNewExec(b, seeded(t, 3), func(scope *model.Scope, images *Node) []*Node {
			tokens := smallest.Tokens(scope, images)
			tokens.Attention[1].AssertDims(2, 2, 7, 7)
			tokens.FilterAttention.AssertDims(2, 2, 3, 2, 3)
			return []*Node{ReduceSum(tokens.Attention[0], -1), ReduceSum(tokens.Attention[1], -1), ReduceSum(tokens.FilterAttention, -1)}
		})
		defer exec.Finalize()
		for i, sums := range exec.MustCall(normal(2, 6, 4, 3)) {
			for _, sum := range flat64(sums) {
				if !(math.Abs(sum-1) <= 1e-5) {
					t.Fatalf("maps %d sum to %v", i, sum)
				}
			}
		}
	})
}

// The gradient of every weight, including the filter's, is compared along one direction with finite differences in float64.
func TestViTGradientsAreDifferences(t *testing.T) {
	positioned := later
	positioned.GridSize, positioned.SwiGLU, positioned.Bias = 2, false, encoder.NoBias
	earlier := smallest
	earlier.BlocksAfterFilter = 1
	block, frozen := smallest, smallest
	block.Filter, frozen.Filter = encoder.ResidualBlock, encoder.FrozenPrototypes
	for name, v := range map[string]encoder.ViT{
		"of 2021": smallest, "later": later, "later with positions": positioned, "filter earlier": earlier, "block": block, "frozen": frozen,
	} {
		t.Run(name, func(t *testing.T) { checkGradients(t, v) })
	}
}

func checkGradients(t *testing.T, v encoder.ViT) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		if b.Name() == "xla" && v != smallest {
			return // Compiling for XLA once is enough.
		}
		store := seeded(t, 7)
		var all []*model.Variable
		exec := model.MustNewExec(b, store, func(scope *model.Scope, images *Node) []*Node {
			tokens := v.Tokens(scope, images)
			toward := func(x *Node) *Node { return ReduceAllSum(Mul(x, Sin(IotaFull(x.Graph(), x.Shape())))) }
			loss := Add(toward(tokens.Class), toward(tokens.Patches))
			var values []*Node
			all = nil
			for _, w := range v.Weights() {
				variable := store.GetVariable("/" + w.Path)
				all, values = append(all, variable), append(values, variable.NodeValue(images))
			}
			return append([]*Node{loss}, Gradient(loss, values...)...)
		})
		defer exec.Finalize()
		images := waves(1000, dtypes.Float64, 1, 0, 2, 6, 4, 3)
		exec.MustCall(images)   // Makes the variables.
		for k, v := range all { // Values of the size that training reaches: the initial ones hardly attend.
			if err := v.SetValue(waves(k, dtypes.Float64, 0.5, 0.1, v.Shape().Dimensions...)); err != nil {
				t.Fatal(err)
			}
		}
		gradients := exec.MustCall(images)[1:]
		for k, v := range all {
			start, gradient := flat64(v.MustValue()), flat64(gradients[k])
			const step = 1e-5
			at := func(distance float64) float64 {
				moved := make([]float64, len(start))
				for i := range moved {
					moved[i] = start[i] + distance*math.Cos(float64(3*i+k))
				}
				if err := v.SetValue(tensors.FromFlatDataAndDimensions(moved, v.Shape().Dimensions...)); err != nil {
					t.Fatal(err)
				}
				return exec.MustCall(images)[0].Value().(float64)
			}
			numeric, analytic := (at(step)-at(-step))/(2*step), 0.0
			at(0)
			for i, g := range gradient {
				analytic += g * math.Cos(float64(3*i+k))
			}
			if !(math.Abs(numeric-analytic) <= 1e-6*max(1, math.Abs(numeric))) {
				t.Errorf("%s: gradient %v, differences %v", v.Path(), analytic, numeric)
			}
		}
	})
}
