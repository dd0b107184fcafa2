package views_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/views"
)

// Two random views of each image of a batch.
func ExampleApply() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	images := synthetic.Images(4, 32, 1)
	pixels := tensors.FromFlatDataAndDimensions(images.Pixels, 4, 32, 32, 3)
	params := views.Default().Draw(1, 0, []int32{0, 1, 2, 3}, 2, 32, 32)

	result, err := graph.CallOnce(b, func(pixels, params *graph.Node) *graph.Node {
		return views.Apply(pixels, params, 24)
	}, pixels, params)
	if err != nil {
		panic(err)
	}
	fmt.Println(result.Shape())
	// Output: (Float32)[8, 24, 24, 3]
}

func ExampleMultiCrop() {
	crops := views.DefaultMultiCrop()
	global, local := crops.Draw(1, 0, []int32{7}, []datasets.Size{{Height: 480, Width: 640}})
	fmt.Println(global.Shape().Dim(0), "global views of", crops.GlobalCropSize, "pixels")
	fmt.Println(local.Shape().Dim(0), "local views of", crops.LocalCropSize, "pixels")
	// Output:
	// 2 global views of 224 pixels
	// 4 local views of 96 pixels
}
