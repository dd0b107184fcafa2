package heads

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

// Where a place is exactly 0 before a ReLU, the gradient depends on the slope there. testdata/fcn_gradient.py has such places by the hundred.
func TestFCNGradientsAgreeWithPyTorchAtZero(t *testing.T) {
	type values struct {
		Shape  []int
		Values []float32
	}
	var golden struct {
		Zeros              int
		Features           [][][][]float32
		Labels             [][][]uint8
		Weights, Gradients map[string]values
	}
	raw, err := os.ReadFile("testdata/fcn_gradient.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if golden.Zeros < 20 || len(golden.Gradients) != 20 {
		t.Fatalf("%d zeros, %d gradients", golden.Zeros, len(golden.Gradients))
	}
	head := Segmentation{Kind: FCN, Classes: 2, Width: 2}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		store := model.NewStore()
		for name, weight := range golden.Weights {
			if _, err := store.CreateVariable("/"+name, tensors.FromFlatDataAndDimensions(weight.Values, weight.Shape...)); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		exec := model.MustNewExec(b, store, func(scope *model.Scope, features, labels *Node) []*Node {
			loss := head.Loss(head.Logits(scope, features), TransposeAllAxes(labels, 1, 2, 0))
			var variables []*Node
			names = nil
			for name := range golden.Gradients {
				names, variables = append(names, name), append(variables, store.GetVariable("/"+name).NodeValue(features))
			}
			return Gradient(loss, variables...)
		})
		defer exec.Finalize()
		for i, gradient := range exec.MustCall(golden.Features, golden.Labels) {
			for at, got := range tensors.MustCopyFlatData[float32](gradient) {
				if want := golden.Gradients[names[i]].Values[at]; !(math.Abs(float64(got-want)) < 1e-5*max(1, math.Abs(float64(want)))) {
					t.Errorf("gradient of %s, entry %d is %g, PyTorch's %g", names[i], at, got, want)
				}
			}
		}
	})
}
