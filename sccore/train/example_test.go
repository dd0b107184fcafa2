package train_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/train"
)

// leastSquares fits y = 2·x₀ − x₁ by stochastic gradient descent on batches of 8 rows. A step reports its loss.
func leastSquares(steps, parts int, rate float64) train.Task[float64] {
	rows := 8 / parts
	return train.Task[float64]{
		Steps:    func() int { return steps },
		Inputs:   []train.Input{{Shape: shapes.Make(dtypes.Float32, rows, 2), Divided: true}, {Shape: shapes.Make(dtypes.Float32, rows), Divided: true}},
		Schedule: func(int) []float32 { return []float32{float32(rate)} },
		Batches: func(_ context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] {
			return func(yield func(train.Batch, error) bool) {
				for number := from; ; number++ {
					random := rand.New(rand.NewPCG(seed, uint64(number/parts)))
					x, y := make([]float32, 16), make([]float32, 8)
					for i := range y {
						x[2*i], x[2*i+1] = random.Float32(), random.Float32()
						y[i] = 2*x[2*i] - x[2*i+1]
					}
					first := number % parts * rows
					inputs := []any{tensors.FromFlatDataAndDimensions(x[2*first:2*(first+rows)], rows, 2), y[first : first+rows]}
					if !yield(train.Batch{Inputs: inputs}, nil) {
						return
					}
				}
			}
		},
		Loss: func(scope *model.Scope, inputs []*Node) (*Node, []train.Report[float64]) {
			x, y := inputs[0], inputs[1]
			w := scope.In("online").VariableWithShape("weight", shapes.Make(dtypes.Float32, 2)).NodeValue(x)
			loss := ReduceAllMean(Square(Sub(ReduceSum(Mul(x, InsertAxes(w, 0)), 1), y)))
			return loss, []train.Report[float64]{train.Mean("it", loss, func(loss *float64) *float64 { return loss })}
		},
		Update: func(scope *model.Scope, variables []*model.Variable, gradients []*Node, rate *Node) []train.Report[float64] {
			optim.SGD{Momentum: 0.9}.Update(scope.In("optimizer"), variables, gradients, Reshape(rate))
			return nil
		},
		Parts: parts, Learnt: "online", Ahead: true, Workload: train.Workload{Images: 8},
	}
}

func ExampleLoop() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	trainer, err := train.New(b, leastSquares(200, 1, 0.1))
	if err != nil {
		panic(err)
	}
	defer trainer.Close()
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	ctx, stop := context.WithCancel(context.Background())
	var losses []float64
	loop := train.Loop[float64]{
		Trainer: trainer, Dir: dir, Final: "final.safetensors", Every: time.Minute, Note: &losses,
		Start:   func() error { return trainer.Begin(1) },
		Resumed: func(done int) { fmt.Println("resumed after step", done) },
		After: func(loss float64, _ map[string]float64) error {
			if losses = append(losses, loss); len(losses) == 150 {
				stop() // As Ctrl-C does.
			}
			return nil
		},
	}
	fmt.Println(loop.Run(ctx))
	fmt.Println(loop.Run(context.Background()))
	fmt.Printf("%d losses, the last %.3f\n", len(losses), losses[len(losses)-1])
	fmt.Printf("%.2f\n", trainer.Store().GetVariable("/online/weight").MustValue().Value())
	// Output:
	// context canceled
	// resumed after step 150
	// <nil>
	// 200 losses, the last 0.000
	// [2.00 -1.00]
}
