package sccore_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
)

func ExampleSinkhorn_Targets() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		fmt.Println(err)
		return
	}
	// Both rows prefer the first entry. The second row prefers it less, and gets the other entry.
	scores := [][]float64{{0.9, 0.1}, {0.6, 0.5}}
	q := graph.MustExecOnce(b, sccore.DefaultSinkhorn().Targets, scores)
	fmt.Printf("%.3f\n", q.Value())
	// Output:
	// [[1.000 0.000] [0.002 0.998]]
}
