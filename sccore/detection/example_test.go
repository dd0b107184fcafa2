package detection_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/detection"
)

// Two boxes overlap by more than half. The one with the lower score goes.
func ExampleNMS() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	boxes := [][][]float32{{{0, 0, 10, 10}, {1, 0, 11, 10}, {20, 0, 30, 10}}}
	keep := graph.MustExecOnce(b, func(boxes, scores *graph.Node) *graph.Node {
		present := graph.GreaterThan(scores, graph.ZerosLike(scores))
		return detection.NMS(boxes, scores, nil, present, 0.5)
	}, boxes, [][]float32{{0.8, 0.9, 0.1}})
	fmt.Println(keep.Value())
	// Output: [[false true true]]
}

// A mask of 2×2, with its left half inside, in an image of 3×8 pixels.
func ExamplePaste() {
	pixels := detection.Paste([]float32{1, 0, 1, 0}, 2, [4]float32{1, 0, 7, 3}, 3, 8)
	for y := range 3 {
		for _, inside := range pixels[y*8 : (y+1)*8] {
			fmt.Print(map[bool]string{true: "#", false: "."}[inside])
		}
		fmt.Println()
	}
	// Output:
	// .###....
	// .###....
	// .###....
}
