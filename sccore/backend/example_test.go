package backend_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/sccore/backend"
)

// Open takes XLA where its plugin is installed. OpenConfig takes what is named: here the pure-Go engine, which is always there.
func ExampleOpenConfig() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	defer b.Finalize()
	sum := graph.MustExecOnce(b, func(x, y *graph.Node) *graph.Node { return graph.Add(x, y) }, float32(2), float32(3))
	fmt.Println(sum.Value())
	// Output: 5
}
