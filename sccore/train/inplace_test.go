package train_test

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/train"
)

// large trains a weight of 16 MB by AdamW towards 1, with inputs of 4 MB.
type large struct{ weights int }

func (o large) Shapes() []shapes.Shape { return []shapes.Shape{shapes.Make(dtypes.Float32, 1<<20)} }

func (o large) Graph(scope *model.Scope, inputs []*Node) []*Node {
	weight := scope.In("online").WithInitializer(Zeros).VariableWithShape("weight", shapes.Make(dtypes.Float32, o.weights))
	w := weight.NodeValue(inputs[0])
	loss := ReduceAllMean(Square(Sub(w, ReduceAllMean(inputs[0]))))
	g := loss.Graph()
	optim.DefaultAdamW().Update(scope.In("optimizer"), []*model.Variable{weight}, Gradient(loss, w), Const(g, float32(0.1)), Const(g, float32(0)))
	return []*Node{loss}
}

func (o large) Steps() int { return 100 }

func (o large) Inputs(context.Context, train.At) ([]any, error) {
	ones := make([]float32, 1<<20)
	for i := range ones {
		ones[i] = 1
	}
	return []any{ones}, nil
}

func (o large) Metrics(loss *float64, _ train.At, outputs []*tensors.Tensor) {
	*loss = float64(tensors.ToScalar[float32](outputs[0]))
}

func (o large) Diverged(float64) string { return "" }

// residentMB is the memory of this process after what nobody needs is freed.
func residentMB(t *testing.T) int {
	t.Helper()
	runtime.GC()
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("this system does not tell a process's memory")
	}
	pages, err := strconv.Atoi(strings.Fields(string(raw))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() >> 20
}

// Weights and moments are 48 MB, so what a step left behind would be 1.2 GB after 25 steps.
func TestMemoryDoesNotGrowWithSteps(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		trainer := newTrainer(t, b, large{weights: 4 << 20})
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		steps(t, trainer, 5)
		before := residentMB(t)
		for range 5 {
			steps(t, trainer, 5)
			t.Log(residentMB(t))
		}
		if after := residentMB(t); after > before+60 {
			t.Errorf("25 steps took the process from %d to %d MB", before, after)
		}
	})
}

// A checkpoint reads the values between two steps, and the step after it takes their memory.
func TestValuesStayGoodInPlace(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		trainer := newTrainer(t, b, large{weights: 1000})
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		steps(t, trainer, 1)
		value := trainer.Store().GetVariable("/online/weight").MustValue()
		first := tensors.MustCopyFlatData[float32](value)[999]
		saved := state(t, trainer)
		steps(t, trainer, 1)
		if second := tensors.MustCopyFlatData[float32](trainer.Store().GetVariable("/online/weight").MustValue())[999]; first < 0.09 || second < first+0.09 {
			t.Errorf("weights %g and %g after one step and two", first, second)
		}
		if state(t, trainer) == saved {
			t.Error("the checkpoint did not change")
		}
	})
}
