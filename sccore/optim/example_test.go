package optim_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/optim"
)

// Three steps of gradient descent on w², with a learning rate that falls from 0.25 to 0.
func ExampleSGD() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	store := model.NewStore()
	w, err := store.CreateVariable("/w", tensors.FromValue(float32(1)))
	if err != nil {
		panic(err)
	}
	step := model.MustNewExec(b, store, func(scope *model.Scope, learningRate *graph.Node) *graph.Node {
		loss := graph.Square(w.NodeValue(learningRate))
		gradients := graph.Gradient(loss, w.NodeValue(learningRate))
		optim.SGD{Momentum: 0.5}.Update(scope.At("sgd"), []*model.Variable{w}, gradients, learningRate)
		return loss
	})
	for i := range 3 {
		rate := optim.Cosine(i, 3, 0, 0.25, 0)
		loss := step.MustCall(float32(rate))[0].Value()
		fmt.Printf("learning rate %.4f, loss %.4f\n", rate, loss)
	}
	// Output:
	// learning rate 0.2500, loss 1.0000
	// learning rate 0.1875, loss 0.2500
	// learning rate 0.0625, loss 0.0156
}

// A learning rate with two steps of warm-up.
func ExampleCosine() {
	for step := range 6 {
		fmt.Printf("%.2f ", optim.Cosine(step, 6, 2, 1, 0))
	}
	// Output: 0.50 1.00 1.00 0.85 0.50 0.15
}
