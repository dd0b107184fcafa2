package train_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/train"
)

// TestDevicesShareTheParts accumulates gradients over the parts of a batch, each of which two devices share.
func TestDevicesShareTheParts(t *testing.T) {
	task := leastSquares(30, 2, 0.1)
	one, two := newTrainer(t, testbackend.Devices(t, 1), task), newTrainer(t, testbackend.Devices(t, 2), task)
	for _, trainer := range []*train.Trainer[float64]{one, two} {
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
	}
	want := steps(t, one, 30)
	for i, got := range steps(t, two, 30) {
		if !(math.Abs(got-want[i]) <= 1e-6) {
			t.Errorf("step %d: loss %g on two devices, %g on one", i, got, want[i])
		}
	}
	if distance := testbackend.Distance(testbackend.Values(t, two.Store()), testbackend.Values(t, one.Store())); !(distance < 1e-6) {
		t.Errorf("the weights are %g apart", distance)
	}
}

// keeping is leastSquares with its last batch in a variable, which each device holds whole.
func keeping() train.Task[float64] {
	task := leastSquares(30, 1, 0.1)
	loss := task.Loss
	task.Loss = func(scope *model.Scope, inputs []*Node) (*Node, []train.Report[float64]) {
		scope.In("last").WithInitializer(Zeros).VariableWithShape("x", inputs[0].Shape()).SetTrainable(false).SetNodeValue(inputs[0])
		return loss(scope, inputs)
	}
	return task
}

func TestDevicesHoldVariablesWhole(t *testing.T) {
	var last [2][]float32
	for i := range last {
		trainer := newTrainer(t, testbackend.Devices(t, i+1), keeping())
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		steps(t, trainer, 3)
		last[i] = testbackend.Values(t, trainer.Store())["/last/x"]
	}
	if !slices.Equal(last[0], last[1]) {
		t.Errorf("two devices hold %v, one %v", last[1], last[0])
	}
}

func TestDevicesThatCannotShareABatch(t *testing.T) {
	b := testbackend.Devices(t, 3)
	_, err := train.New(b, leastSquares(30, 2, 0.1))
	if err == nil || !strings.Contains(err.Error(), "devices 3: they cannot share 4 images") {
		t.Errorf("got %v", err)
	}
}
