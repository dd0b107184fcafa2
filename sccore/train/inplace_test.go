package train_test

import (
	"context"
	"iter"
	"math"
	"os"
	"runtime"
	"slices"
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
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/train"
)

// large trains weights by AdamW towards 1, with inputs of 4 MB.
func large(weights int) train.Task[float64] {
	return train.Task[float64]{
		Steps: func() int { return 100 }, Inputs: []train.Input{{Shape: shapes.Make(dtypes.Float32, 1<<20)}}, Ahead: true,
		Schedule: func(int) []float32 { return []float32{0.1} },
		Batches: func(context.Context, uint64, int) iter.Seq2[train.Batch, error] {
			return func(yield func(train.Batch, error) bool) {
				for {
					ones := slices.Repeat([]float32{1}, 1<<20)
					if !yield(train.Batch{Inputs: []any{tensors.FromFlatDataAndDimensions(ones, 1<<20)}}, nil) {
						return
					}
				}
			}
		},
		Loss: func(scope *model.Scope, inputs []*Node) (*Node, []train.Report[float64]) {
			w := scope.In("online").WithInitializer(Zeros).VariableWithShape("weight", shapes.Make(dtypes.Float32, weights)).NodeValue(inputs[0])
			loss := ReduceAllMean(Square(Sub(w, ReduceAllMean(inputs[0]))))
			return loss, []train.Report[float64]{train.Mean("it", loss, func(loss *float64) *float64 { return loss })}
		},
		Update: func(scope *model.Scope, variables []*model.Variable, gradients []*Node, rate *Node) []train.Report[float64] {
			optim.DefaultAdamW().Update(scope.In("optimizer"), variables, gradients, Reshape(rate), Scalar(rate.Graph(), dtypes.Float32, 0))
			return nil
		},
	}
}

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

// Weights and moments are 48 MB, so what a step left behind would be 1.2 GB after 25 steps. The C library keeps up to 130 MB of what was freed.
func TestMemoryDoesNotGrowWithSteps(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		trainer := newTrainer(t, b, large(4<<20))
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		steps(t, trainer, 5)
		before := residentMB(t)
		for range 5 {
			steps(t, trainer, 5)
			t.Log(residentMB(t))
		}
		if after := residentMB(t); after > before+200 {
			t.Errorf("25 steps took the process from %d to %d MB", before, after)
		}
	})
}

// A checkpoint reads the values between two steps, and the step after it takes their memory.
func TestValuesStayGoodInPlace(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		trainer := newTrainer(t, b, large(1000))
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

// TestLargeProductsSeeNewWeights: XLA's libraries for products may keep a factor that they have packed, as long as its address stays the same. Each step of AdamW moves all
// weights by the rate, from 1 on.
func TestLargeProductsSeeNewWeights(t *testing.T) {
	const rows, in, out = 64, 1536, 384
	task := large(1)
	task.Loss = func(scope *model.Scope, inputs []*Node) (*Node, []train.Report[float64]) {
		w := scope.In("online").WithInitializer(Ones).VariableWithShape("weight", shapes.Make(dtypes.Float32, in, out)).NodeValue(inputs[0])
		loss := ReduceAllMean(Square(layers.Product(Reshape(SliceAxis(inputs[0], 0, AxisRange(0, rows*in)), rows, in), w)))
		return loss, []train.Report[float64]{train.Mean("it", loss, func(loss *float64) *float64 { return loss })}
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		trainer := newTrainer(t, b, task)
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		for step := range 5 {
			if got, want := math.Sqrt(steps(t, trainer, 1)[0]), in*(1-0.1*float64(step)); !(math.Abs(got-want) <= 0.01*in) {
				t.Errorf("step %d: the product is %g, want %g", step+1, got, want)
			}
		}
	})
}

// TestResultsTakeTheMemoryOfWeights: this version of go-xla lets [backend.Alias] through. Without it a step copies the weights in silence.
func TestResultsTakeTheMemoryOfWeights(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		aliased := false
		exec := MustNewExec(b, func(x *Node) *Node {
			aliased = backend.Alias(InternalBackendOutputs(x)[0], 0)
			return AddScalar(x, 1)
		})
		defer exec.Finalize()
		exec.MustCall([]float32{1, 2})
		if want := strings.HasPrefix(b.Name(), "xla"); aliased != want {
			t.Errorf("%s: aliased is %v, want %v", b.Name(), aliased, want)
		}
	})
}
