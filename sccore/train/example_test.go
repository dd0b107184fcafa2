package train_test

import (
	"context"
	"fmt"
	"math"
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

// leastSquares fits y = 2·x₀ − x₁ by stochastic gradient descent. A step reports its loss.
type leastSquares struct {
	steps int
	rate  float64
}

func (o *leastSquares) Steps() int { return o.steps }

func (o *leastSquares) Shapes() []shapes.Shape {
	return []shapes.Shape{shapes.Make(dtypes.Float32, 8, 2), shapes.Make(dtypes.Float32, 8)}
}

func (o *leastSquares) Graph(scope *model.Scope, inputs []*Node) []*Node {
	x, y := inputs[0], inputs[1]
	weight := scope.In("online").VariableWithShape("weight", shapes.Make(dtypes.Float32, 2))
	w := weight.NodeValue(x)
	loss := ReduceAllMean(Square(Sub(ReduceSum(Mul(x, InsertAxes(w, 0)), 1), y)))
	rate := Scalar(x.Graph(), dtypes.Float32, o.rate)
	optim.SGD{Momentum: 0.9}.Update(scope.In("optimizer"), []*model.Variable{weight}, Gradient(loss, w), rate)
	return []*Node{loss}
}

func (o *leastSquares) Inputs(_ context.Context, at train.At) ([]any, error) {
	random := rand.New(rand.NewPCG(at.Seed, uint64(at.Step)))
	x, y := make([]float32, 16), make([]float32, 8)
	for i := range y {
		x[2*i], x[2*i+1] = random.Float32(), random.Float32()
		y[i] = 2*x[2*i] - x[2*i+1]
	}
	return []any{tensors.FromFlatDataAndDimensions(x, 8, 2), y}, nil
}

func (o *leastSquares) Metrics(loss *float64, _ train.At, outputs []*tensors.Tensor) {
	*loss = float64(tensors.ToScalar[float32](outputs[0]))
}

func (o *leastSquares) Diverged(loss float64) string {
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Sprintf("it is %g", loss)
	}
	return ""
}

func ExampleLoop() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	trainer, err := train.New(b, &leastSquares{steps: 200, rate: 0.1})
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
