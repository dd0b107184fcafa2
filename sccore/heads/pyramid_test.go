package heads

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

// goldenValues are a tensor of testdata/pyramid.json.
type goldenValues struct {
	Shape  []int
	Values []float32
}

// check compares a tensor with the golden one.
func (want goldenValues) check(t *testing.T, name string, got *tensors.Tensor) {
	t.Helper()
	if !slices.Equal(got.Shape().Dimensions, want.Shape) {
		t.Fatalf("%s: shape %s, PyTorch's %v", name, got.Shape(), want.Shape)
	}
	for i, value := range tensors.MustCopyFlatData[float32](got) {
		if !(math.Abs(float64(value-want.Values[i])) < 1e-4) {
			t.Fatalf("%s: value %d is %g, PyTorch's %g", name, i, value, want.Values[i])
		}
	}
}

// goldenOutput is an output of a network and its loss.
type goldenOutput struct {
	Logits goldenValues
	Loss   float64
}

// goldenNetwork holds a network's weights before the pass in training and its running statistics after it.
type goldenNetwork struct {
	Weights, Statistics map[string]goldenValues
	Train, Eval         map[string]goldenOutput
}

// networks are the networks of testdata/pyramid.py: functions of the outputs of 4 blocks, [2, 1 + 3·4, 4], that return logits by name.
var networks = map[string]func(scope *model.Scope, blocks []*Node, train bool) map[string]*Node{
	"UPerNet": func(scope *model.Scope, blocks []*Node, train bool) map[string]*Node {
		levels := Pyramid{Blocks: [4]int{0, 1, 2, 3}}.Levels(scope, blocks, 3, 4, train)
		return map[string]*Node{
			"logits":    Decoder{Classes: 3, Channels: 4, Train: train}.UPerNet(scope, levels),
			"auxiliary": Decoder{Classes: 3, Channels: 3, Train: train}.Auxiliary(scope, levels),
		}
	},
	"SemanticFPN": func(scope *model.Scope, blocks []*Node, train bool) map[string]*Node {
		levels := Pyramid{Blocks: [4]int{1, 3, 3, 0}}.Levels(scope, blocks, 3, 4, train)
		return map[string]*Node{"logits": Decoder{Classes: 3, NeckChannels: 4, Channels: 3, Train: train}.SemanticFPN(scope, levels)}
	},
}

// blocksOf splits outputs of blocks, [depth, batch, 1 + rows·columns, dim].
func blocksOf(all *Node) (blocks []*Node) {
	for i := range all.Shape().Dim(0) {
		blocks = append(blocks, Squeeze(SliceAxis(all, 0, AxisElem(i)), 0))
	}
	return blocks
}

// inStore is the path of the variable of a weight of PyTorch.
func inStore(name string) string { return "/" + strings.ReplaceAll(name, ".", "/") }

// testdata/pyramid.py writes the file. All names of its weights are mmsegmentation's and iBOT's.
func TestNetworksOfPyramidsAgreeWithPyTorch(t *testing.T) {
	var golden struct {
		Blocks   [][][][]float32 // [depth, batch, 1 + rows·columns, dim]
		Labels   [][][]uint8     // [height, width, batch]
		Networks map[string]goldenNetwork
	}
	raw, err := os.ReadFile("testdata/pyramid.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Networks) != len(networks) {
		t.Fatalf("%d networks, want %d", len(golden.Networks), len(networks))
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, want := range golden.Networks {
			t.Run(name, func(t *testing.T) {
				store := model.NewStore()
				for path, weight := range want.Weights {
					if _, err := store.CreateVariable(inStore(path), tensors.FromFlatDataAndDimensions(weight.Values, weight.Shape...)); err != nil {
						t.Fatal(err)
					}
				}
				before := store.NumVariables()
				for _, train := range []bool{true, false} {
					results := want.Eval
					if train {
						results = want.Train
					}
					var names []string
					exec := model.MustNewExec(b, store, func(scope *model.Scope, all, labels *Node) (out []*Node) {
						names = nil
						for name, logits := range networks[name](scope, blocksOf(all), train) {
							names, out = append(names, name), append(out, logits, CrossEntropy(logits, labels))
						}
						return out
					})
					out := exec.MustCall(golden.Blocks, golden.Labels)
					exec.Finalize()
					if len(names) != len(results) {
						t.Fatalf("%d outputs, want %d", len(names), len(results))
					}
					for i, name := range names {
						results[name].Logits.check(t, name, out[2*i])
						if loss := float64(out[2*i+1].Value().(float32)); !(math.Abs(loss-results[name].Loss) < 1e-5) {
							t.Errorf("training %t: loss of %s is %g, PyTorch's %g", train, name, loss, results[name].Loss)
						}
					}
				}
				for path, statistic := range want.Statistics {
					statistic.check(t, path, store.GetVariable(inStore(path)).MustValue())
				}
				if after := store.NumVariables(); after != before {
					t.Errorf("%d variables that PyTorch does not have", after-before)
				}
			})
		}
	})
}
