package losses_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/backend"
)

// Two images, two views each: the views of an image are parallel, those of different images orthogonal.
var (
	exampleView1 = [][]float64{{1, 0}, {0, 1}}
	exampleView2 = [][]float64{{2, 0}, {0, 3}}
)

func printLoss(f any, inputs ...any) {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	var out float64
	switch f := f.(type) {
	case func(x *graph.Node) *graph.Node:
		out = graph.MustExecOnce(b, f, inputs...).Value().(float64)
	case func(x, y *graph.Node) *graph.Node:
		out = graph.MustExecOnce(b, f, inputs...).Value().(float64)
	case func(x, y, z *graph.Node) *graph.Node:
		out = graph.MustExecOnce(b, f, inputs...).Value().(float64)
	}
	fmt.Printf("%.4f\n", out)
}

func ExampleNTXent() {
	printLoss(func(z1, z2 *graph.Node) *graph.Node { return losses.NTXent(z1, z2, 0.5) }, exampleView1, exampleView2)
	// Output: 0.2395
}

func ExampleInfoNCE() {
	queue := [][]float64{{-1, 0}}
	printLoss(func(q, k, queue *graph.Node) *graph.Node { return losses.InfoNCE(q, k, queue, 0.5) }, exampleView1, exampleView2, queue)
	// Output: 0.0725
}

func ExampleBarlowTwins() {
	printLoss(func(z1, z2 *graph.Node) *graph.Node { return losses.BarlowTwins(z1, z2, 0.005) }, exampleView1, exampleView2)
	// Output: 0.0100
}

func ExampleNegativeCosine() {
	printLoss(func(p, z *graph.Node) *graph.Node { return losses.NegativeCosine(p, z) }, exampleView1, exampleView2)
	// Output: -1.0000
}

func ExampleAlignment() {
	views := [][]float64{{1, 0}, {1, 0}, {0, 1}, {1, 0}} // Two images of two views; those of the second are orthogonal.
	printLoss(func(z *graph.Node) *graph.Node { return losses.Alignment(z, 2) }, views)
	// Output: 0.1250
}

func ExampleDiversity() {
	views := [][]float64{{1, 0}, {1, 0}, {0, 1}, {1, 0}}
	printLoss(func(z *graph.Node) *graph.Node { return losses.Diversity(z, 1) }, views)
	// Output: 0.0625
}

func ExampleLipschitz() {
	z, inputs := [][]float64{{1, 0}, {0, 1}}, [][]float64{{0}, {1}}
	printLoss(func(z, x *graph.Node) *graph.Node { return losses.Lipschitz(z, x, 1) }, z, inputs)
	// Output: 0.1250
}
