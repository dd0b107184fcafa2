package losses_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/train"
)

// Tests of DINO, iBOT and Mugs follow PyTorch over several steps: the student's update by AdamW with a last layer that is frozen in the first epoch, and
// the teacher's moving average.

// weightsOf are the variables of a branch by their paths below it. Biases, and the weights of norms, have one row.
type weightsOf map[string]matrix

// recipe is what the files in testdata say about a training.
type recipe struct {
	Epoch, Warmup                                int
	Rate, Decay, TeacherMomentum, CenterMomentum float64
	Start, Final, Student                        float64
	Globals                                      int
	Weights                                      weightsOf // Of both branches before the first step.
}

func readGolden(t *testing.T, name string, golden any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, golden); err != nil {
		t.Fatal(err)
	}
}

// set creates the variables of a branch.
func (w weightsOf) set(t *testing.T, store *model.Store, branch string) {
	t.Helper()
	for name, rows := range w {
		var value any = [][]float64(rows)
		if strings.HasSuffix(name, "bias") || strings.Contains(name, "norm") {
			value = rows[0]
		}
		variable, err := store.CreateVariable("/"+branch+"/"+name, tensors.MustFromAnyValue(value))
		if err != nil {
			t.Fatal(err)
		}
		variable.SetTrainable(branch == "student")
	}
}

// check compares the variables of a branch.
func (w weightsOf) check(t *testing.T, store *model.Store, branch string, step int) {
	t.Helper()
	for name, rows := range w {
		variable := store.GetVariable("/" + branch + "/" + name)
		if variable == nil {
			t.Fatalf("%s has no variable %s", branch, name)
		}
		got, i := tensors.MustCopyFlatData[float64](variable.MustValue()), 0
		for _, row := range rows {
			for _, want := range row {
				if !(math.Abs(got[i]-want) <= 1e-8) {
					t.Errorf("step %d: entry %d of %s of the %s is %.10g, PyTorch %.10g", step, i, name, branch, got[i], want)
					return
				}
				i++
			}
		}
	}
}

// update makes a step of training from the loss; frozen is whether the last layer keeps its values.
func (r recipe) update(scope *model.Scope, loss, frozen *graph.Node) {
	g := loss.Graph()
	var rest, last []*model.Variable
	for variable := range scope.At("student").IterVariables() {
		switch {
		case !variable.Trainable:
		case strings.Contains(variable.Path(), heads.DINOLastLayer):
			last = append(last, variable)
		default:
			rest = append(rest, variable)
		}
	}
	var values []*graph.Node
	for _, variable := range append(append([]*model.Variable{}, rest...), last...) {
		values = append(values, variable.NodeValue(g))
	}
	gradients := graph.Gradient(loss, values...)
	rate, decay := graph.Const(g, r.Rate), graph.Const(g, r.Decay)
	adamw := optim.DefaultAdamW()
	adamw.Update(scope.At("optimizer"), rest, gradients[:len(rest)], rate, decay)
	adamw.Frozen = frozen
	adamw.Update(scope.At("optimizer_last"), last, gradients[len(rest):], rate, decay)
	train.UpdateEMA(scope.At("student"), scope.At("teacher"), graph.Const(g, r.TeacherMomentum))
}

// state is the current value of a variable that starts at zero, such as a centre, and a function that sets its next value.
func state(scope *model.Scope, g *graph.Graph, name string, dims ...int) (*graph.Node, func(next *graph.Node)) {
	variable := scope.Store().VariableWithShape("/"+name, tensors.FromScalarAndDimensions(0.0, dims...).Shape(), graph.Zeros).SetTrainable(false)
	return variable.NodeValue(g), variable.SetNodeValue
}

// near compares a list of numbers with PyTorch's.
func near(t *testing.T, step int, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("step %d: %s has %d numbers, PyTorch's %d", step, what, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-8*math.Max(1, math.Abs(want[i]))) {
			t.Fatalf("step %d: entry %d of %s is %.10g, PyTorch %.10g", step, i, what, got[i], want[i])
		}
	}
}
