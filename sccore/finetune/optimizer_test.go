package finetune

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/weights"
)

// TestThreeStepsAgreeWithPyTorch fine-tunes a tiny transformer with layer decay and stochastic depth, as testdata/optimizer.py does.
func TestThreeStepsAgreeWithPyTorch(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "optimizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Rate        float64 `json:"rate"`
		LayerDecay  float64 `json:"layer_decay"`
		WeightDecay float64 `json:"weight_decay"`
		Images      [][]float32
		Labels      [][]int32
		Keep        [][]float32
		Losses      []float64
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	const batch, classes = 2, 3
	vit := encoder.ViT{Name: "tiny", PatchSize: 4, Dim: 8, Depth: 2, NumHeads: 2, GridSize: 4, Positions: encoder.DINOPositions}
	read := func(name string) *weights.Import {
		im, err := weights.ReadViT(filepath.Join("testdata", name), vit, "")
		if err != nil {
			t.Fatal(err)
		}
		return im
	}
	before, after := read("before.safetensors"), read("after.safetensors")
	o := Optimizer{LayerDecay: golden.LayerDecay, WeightDecay: golden.WeightDecay}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		store := model.NewStore()
		defer store.Finalize()
		step := model.MustNewExec(b, store, func(scope *model.Scope, inputs []*Node) *Node {
			images, labels, keep, rate := DivScalar(inputs[0], 255), inputs[1], inputs[2], inputs[3]
			tokens := vit.TokensInTraining(scope.At("backbone"), images, keep, nil)
			features := SliceAxis(tokens.Blocks[vit.Depth-1], 1, AxisRange(1))
			logits := layers.Dense(scope.At("head"), Reshape(features, -1, vit.Dim), classes, true)
			loss := Neg(ReduceAllMean(MulScalar(Mul(LogSoftmax(logits), OneHot(Reshape(labels, -1), classes, dtypes.Float32)), classes)))
			variables, gradients := train.Gradients(scope, loss, "")
			o.Update(scope.At("optimizer"), "/backbone", vit.Depth, variables, gradients, rate)
			return loss
		})
		defer step.Finalize()
		if err := before.Apply(store, "/backbone"); err != nil {
			t.Fatal(err)
		}
		setHead := func(im *weights.Import, set func(path string, value *tensors.Tensor)) {
			weight := tensors.MustCopyFlatData[float32](im.Head["weight"])
			transposed := make([]float32, len(weight))
			for i := range classes {
				for j := range vit.Dim {
					transposed[j*classes+i] = weight[i*vit.Dim+j]
				}
			}
			set("/head/weight", tensors.FromFlatDataAndDimensions(transposed, vit.Dim, classes))
			set("/head/bias", tensors.FromFlatDataAndDimensions(tensors.MustCopyFlatData[float32](im.Head["bias"]), classes)) // The store frees it.
		}
		setHead(before, func(path string, value *tensors.Tensor) {
			if _, err := store.CreateVariable(path, value); err != nil {
				t.Fatal(err)
			}
		})
		for i := range golden.Losses {
			outputs := step.MustCall(
				tensors.FromFlatDataAndDimensions(golden.Images[i], batch, 16, 16, 3), tensors.FromFlatDataAndDimensions(golden.Labels[i], batch, 16),
				tensors.FromFlatDataAndDimensions(golden.Keep[i], vit.Depth, 2, batch), float32(golden.Rate*float64(i+1)),
			)
			if loss := float64(outputs[0].Value().(float32)); !(math.Abs(loss-golden.Losses[i]) <= 1e-5) {
				t.Errorf("step %d: loss %.7f, PyTorch's is %.7f", i, loss, golden.Losses[i])
			}
		}
		check := func(path string, want *tensors.Tensor) {
			got := tensors.MustCopyFlatData[float32](store.GetVariable(path).MustValue())
			for j, value := range tensors.MustCopyFlatData[float32](want) {
				if strings.HasSuffix(path, "qkv/bias") && j/vit.Dim == 1 {
					continue // Attention does not depend on the bias of the keys: AdamW scales rounding errors up.
				}
				if diff := math.Abs(float64(got[j] - value)); !(diff <= 2e-5) {
					t.Errorf("%s[%d] is %.7f, PyTorch's is %.7f", path, j, got[j], value)
					return
				}
			}
		}
		wanted := model.NewStore()
		defer wanted.Finalize()
		if err := after.Apply(wanted, "/backbone"); err != nil {
			t.Fatal(err)
		}
		for _, w := range vit.Weights() {
			check("/backbone/"+w.Path, wanted.GetVariable("/backbone/"+w.Path).MustValue())
		}
		setHead(after, check)
	})
}

func TestRateFollowsTheSchedule(t *testing.T) {
	poly := Optimizer{LearningRate: 1, WarmUp: 10, WarmUpRatio: 1e-6, Power: 1}
	steps := Optimizer{LearningRate: 1, Milestones: [2]float64{0.5, 0.9}, WarmUpRatio: 1}
	for _, c := range []struct {
		name      string
		optimizer Optimizer
		step      int
		want      float64
	}{
		{"poly at the start", poly, 0, 1e-6},
		{"poly in the warm-up", poly, 5, 0.95 * (1 - 0.5*(1-1e-6))},
		{"poly behind the warm-up", poly, 50, 0.5},
		{"poly at the end", poly, 100, 0},
		{"steps before the first", steps, 49, 1},
		{"steps behind the first", steps, 50, 0.1},
		{"steps behind both", steps, 90, 0.01},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.optimizer.Rate(c.step, 100); !(math.Abs(got-c.want) <= 1e-12) {
				t.Errorf("rate %g, want %g", got, c.want)
			}
		})
	}
}

func TestCheckNamesTheSetting(t *testing.T) {
	good := Optimizer{LearningRate: 1e-3, LayerDecay: 0.9, WeightDecay: 0.05, WarmUpRatio: 1e-6, Power: 1, Milestones: [2]float64{1, 1}}
	if err := settings.Check(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Optimizer){
		"rate": func(o *Optimizer) { o.LearningRate = math.NaN() }, "layer_decay": func(o *Optimizer) { o.LayerDecay = 1.1 },
		"weight_decay": func(o *Optimizer) { o.WeightDecay = -1 }, "warmup ": func(o *Optimizer) { o.WarmUp = -1 },
		"warmup_ratio": func(o *Optimizer) { o.WarmUpRatio = 0 }, "power": func(o *Optimizer) { o.Power = math.Inf(1) },
		"milestones": func(o *Optimizer) { o.Milestones[1] = 0 }, "drop_path": func(o *Optimizer) { o.DropPath = 1 },
	} {
		bad := good
		spoil(&bad)
		if err := settings.Check(bad); err == nil || !slices.Contains(strings.Fields(err.Error()), strings.TrimSpace(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
