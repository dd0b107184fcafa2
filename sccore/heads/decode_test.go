package heads

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/settings"
)

// Gradients of the losses by every weight and by the tokens, along random directions, agree with finite differences in float64.
func TestGradientsOfNetworksOfPyramids(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	draw := func(dims ...int) []float64 {
		values := make([]float64, shapes.Make(dtypes.Float64, dims...).Size())
		for i := range values {
			values[i] = rng.NormFloat64()
		}
		return values
	}
	labels := make([]int32, 7*9*2)
	for i := range labels {
		labels[i] = []int32{0, 1, 2, int32(datasets.Ignore)}[rng.IntN(4)]
	}
	truth := tensors.FromFlatDataAndDimensions(labels, 7, 9, 2)
	for name, network := range networks {
		t.Run(name, func(t *testing.T) {
			rng = rand.New(rand.NewPCG(5, 7)) // The order of a map is random.
			store := model.NewStore()
			if _, err := store.CreateVariable("/tokens", tensors.FromFlatDataAndDimensions(draw(4, 2, 13, 2), 4, 2, 13, 2)); err != nil {
				t.Fatal(err)
			}
			var variables []*model.Variable
			graph := func(scope *model.Scope, labels *Node) *Node {
				tokens := store.GetVariable("/tokens").NodeValue(labels)
				loss := ScalarZero(labels.Graph(), dtypes.Float64)
				for _, logits := range network(scope, blocksOf(tokens), true) {
					loss = Add(loss, CrossEntropy(logits, labels))
				}
				return loss
			}
			value := model.MustNewExec(testbackend.Go(t), store, graph)
			defer value.Finalize()
			gradient := model.MustNewExec(testbackend.Go(t), store, func(scope *model.Scope, labels *Node) []*Node {
				loss := graph(scope, labels)
				variables = nil
				var values []*Node
				for variable := range store.IterVariables() {
					if variable.Trainable {
						variables, values = append(variables, variable), append(values, variable.NodeValue(labels))
					}
				}
				return Gradient(loss, values...)
			})
			defer gradient.Finalize()
			gradient.MustCall(truth) // Makes the variables.
			set := func(v *model.Variable, values []float64) {
				if err := v.SetValue(tensors.FromFlatDataAndDimensions(values, v.Shape().Dimensions...)); err != nil {
					t.Fatal(err)
				}
			}
			for _, v := range variables {
				set(v, draw(v.Shape().Dimensions...))
			}
			gradients := gradient.MustCall(truth)
			nonzero := 0
			for i, v := range variables {
				values, direction := tensors.MustCopyFlatData[float64](v.MustValue()), draw(v.Shape().Dimensions...)
				loss := func(step float64) float64 {
					moved := slices.Clone(values)
					for at := range moved {
						moved[at] += step * direction[at]
					}
					set(v, moved)
					return value.MustCall(truth)[0].Value().(float64)
				}
				const step = 1e-6
				numeric, analytic := (loss(step)-loss(-step))/(2*step), 0.0
				set(v, values)
				for at, gradient := range tensors.MustCopyFlatData[float64](gradients[i]) {
					analytic += gradient * direction[at]
				}
				if !(math.Abs(numeric-analytic) < 1e-6*max(1, math.Abs(numeric))) {
					t.Errorf("gradient of %s is %g, finite differences %g", v.Path(), analytic, numeric)
				}
				if math.Abs(numeric) > 1e-4 {
					nonzero++
				}
			}
			if nonzero < len(variables)/2 || len(variables) < 30 {
				t.Errorf("only %d gradients of %d are not 0", nonzero, len(variables))
			}
		})
	}
}

func TestPyramidTakesBlocksOfAnyDepth(t *testing.T) {
	for depth, want := range map[int][4]int{12: {3, 5, 7, 11}, 24: {7, 11, 15, 23}, 3: {0, 1, 1, 2}, 1: {}} {
		p := DefaultPyramid(depth)
		if p.Blocks != want {
			t.Errorf("depth %d: blocks %v, want %v", depth, p.Blocks, want)
		}
		if p.Blocks[3] != depth-1 {
			t.Errorf("depth %d: the last block is %d", depth, p.Blocks[3])
		}
	}
}

// Features of half precision give float32 levels and weights: AdamW's steps of 3e-5 would vanish in bfloat16.
func TestPyramidOfHalfPrecision(t *testing.T) {
	store := model.NewStore()
	exec := model.MustNewExec(testbackend.Go(t), store, func(scope *model.Scope, all *Node) []*Node {
		return DefaultPyramid(4).Levels(scope, blocksOf(ConvertDType(all, dtypes.BFloat16)), 3, 4, true)
	})
	defer exec.Finalize()
	for i, level := range exec.MustCall(tensors.FromShape(shapes.Make(dtypes.Float32, 4, 2, 13, 2))) {
		want := shapes.Make(dtypes.Float32, [][]int{{12, 16}, {6, 8}, {3, 4}, {1, 2}}[i]...)
		want.Dimensions = append(want.Dimensions, 2, 2)
		if !level.Shape().Equal(want) {
			t.Errorf("level %d is %s, want %s", i, level.Shape(), want)
		}
	}
	for variable := range store.IterVariables() {
		if strings.Contains(variable.Path(), "fpn") && variable.Shape().DType != dtypes.Float32 {
			t.Errorf("%s is %s", variable.Path(), variable.Shape())
		}
	}
}

func TestInvalidHeadsOfPyramids(t *testing.T) {
	for _, valid := range []Decoder{{Classes: 150, Channels: 512, Dropout: 0.1}, {Classes: 2, Channels: 1}, {Classes: 255, NeckChannels: 256, Channels: 128}} {
		if err := settings.Check(valid); err != nil {
			t.Error(err)
		}
	}
	for want, invalid := range map[string]Decoder{
		"classes 1":        {Classes: 1, Channels: 4},
		"channels 0":       {Classes: 2},
		"dropout NaN":      {Classes: 2, Channels: 4, Dropout: math.NaN()},
		"classes 256":      {Classes: 256, Channels: 4},
		"channels -1":      {Classes: 2, Channels: -1},
		"dropout 1":        {Classes: 2, Channels: 4, Dropout: 1},
		"neck_channels -3": {Classes: 2, NeckChannels: -3, Channels: 4},
		"dropout -0.1":     {Classes: 2, NeckChannels: 4, Channels: 4, Dropout: -0.1},
	} {
		if err := settings.Check(invalid); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// Weights start as in mmcv and mmsegmentation.
func TestInitialWeightsOfHeads(t *testing.T) {
	store := model.NewStore()
	exec := model.MustNewExec(testbackend.Go(t), store, func(scope *model.Scope, x *Node) []*Node {
		linear := Segmentation{Kind: Linear, Classes: 100}.Logits(scope.At("linear"), x)
		return []*Node{Decoder{Classes: 100, NeckChannels: 32, Channels: 40}.SemanticFPN(scope, []*Node{x}), linear}
	})
	defer exec.Finalize()
	exec.MustCall(tensors.FromShape(shapes.Make(dtypes.Float32, 1, 1, 1, 64)))
	for name, std := range map[string]float64{
		"/neck/lateral_convs/0/conv/weight":            math.Sqrt(2. / (64 + 32)), // Of a uniform distribution within ±√(6/(in + out)).
		"/neck/fpn_convs/0/conv/weight":                math.Sqrt(2. / (9 * (32 + 32))),
		"/decode_head/scale_heads/0/0/conv/weight":     math.Sqrt(2. / (9 * 40)),
		"/decode_head/conv_seg/weight":                 0.01,
		"/decode_head/conv_seg/bias":                   0,
		"/linear/weight":                               1 / math.Sqrt(3*64), // Of PyTorch's uniform distribution within ±1/√in.
		"/neck/fpn_convs/0/conv/bias":                  0,
		"/decode_head/scale_heads/0/0/bn/running_mean": 0,
	} {
		values, sum := tensors.MustCopyFlatData[float32](store.GetVariable(name).MustValue()), 0.0
		for _, value := range values {
			sum += float64(value) * float64(value)
		}
		if got := math.Sqrt(sum / float64(len(values))); !(math.Abs(got-std) <= 0.06*std) {
			t.Errorf("%s starts with a standard deviation of %g, want %g", name, got, std)
		}
	}
}

// Channels are dropped in training only, and differ between steps.
func TestDropoutOfHeadsOfPyramids(t *testing.T) {
	x := make([]float32, 4*13*2*3)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	levels := tensors.FromFlatDataAndDimensions(x, 4, 13, 2, 3)
	for name, logits := range map[string]func(Decoder, *model.Scope, []*Node) *Node{
		"UPerNet": Decoder.UPerNet, "auxiliary": Decoder.Auxiliary, "FPN": Decoder.SemanticFPN,
	} {
		store := model.NewStore()
		twice := func(train bool) [2]string {
			exec := model.MustNewExec(testbackend.Go(t), store, func(scope *model.Scope, x *Node) *Node {
				return logits(Decoder{2, 8, 4, 0.5, train}, scope, []*Node{x, x, x, x})
			})
			defer exec.Finalize()
			return [2]string{fmt.Sprint(exec.MustCall(levels)[0].Value()), fmt.Sprint(exec.MustCall(levels)[0].Value())}
		}
		if got := twice(true); got[0] == got[1] {
			t.Errorf("%s drops the same channels in two steps, or none", name)
		}
		if got := twice(false); got[0] != got[1] {
			t.Errorf("%s drops channels in evaluation", name)
		}
	}
}
