package cotap_test

import (
	"fmt"
	"time"

	"github.com/semcon/semcon/figures/cotap"
)

// Measure gives such costs on a backend.
func ExampleCurves() {
	row := cotap.Curves([]cotap.Cost{
		{Way: "brute force", Pairs: 2304, CPU: 8 * time.Millisecond, Memory: 40e6},
		{Way: "graph", Pairs: 2304, CPU: 2 * time.Millisecond, Memory: 3e6},
		{Way: "graph", Pairs: 38416, CPU: 24 * time.Millisecond, Memory: 60e6},
	})
	for _, curves := range row {
		for _, series := range curves.Series {
			fmt.Println(curves.Y, series.Name, series.X, series.Y)
		}
	}
	// Output:
	// CPU time (ms) brute force [2304] [8]
	// CPU time (ms) graph [2304 38416] [2 24]
	// CPU time (ms) host [] []
	// memory (MB) brute force [2304] [40]
	// memory (MB) graph [2304 38416] [3 60]
	// memory (MB) host [] []
}
