package layers_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/layers"
)

// A convolution with batch normalisation, whose variables have the names of PyTorch.
func ExampleConvolution() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	store := model.NewStore()
	exec := model.MustNewExec(b, store, func(scope *model.Scope, x *graph.Node) *graph.Node {
		x = layers.Convolution(scope.At("conv1"), x, 3, 8, 2)
		return layers.BatchNorm(scope.At("bn1"), x, 2, layers.Norm{Train: true}, true)
	})
	images := make([][][][]float32, 6) // [height, width, batch, channels]
	for y := range images {
		for x := range 6 {
			images[y] = append(images[y], [][]float32{{float32(x), float32(y), 0}, {0, float32(x * y), 1}})
		}
	}
	fmt.Println(exec.MustCall(images)[0].Shape())
	for variable := range store.IterVariables() {
		if variable.Trainable {
			fmt.Println(variable.Path(), variable.Shape())
		}
	}
	// Output:
	// (Float32)[3, 3, 2, 8]
	// /conv1/weight (Float32)[3, 3, 3, 8]
	// /bn1/weight (Float32)[8]
	// /bn1/bias (Float32)[8]
}

// Two bins along each axis of the left half of a feature map.
func ExampleRoIAlign() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	features := [][][][]float32{{ // [1, 2, 4, 1]
		{{1}, {2}, {3}, {4}},
		{{5}, {6}, {7}, {8}},
	}}
	boxes := [][]float32{{0, 0, 1, 0.5}} // top, left, height, width
	pooled, err := graph.CallOnce(b, func(features, boxes, flips *graph.Node) *graph.Node {
		return layers.RoIAlign{OutputSize: 2}.Pool(features, boxes, flips)
	}, features, boxes, []float32{0})
	if err != nil {
		panic(err)
	}
	fmt.Println(pooled.Value())
	// Output: [[[[1] [2]] [[5] [6]]]]
}
