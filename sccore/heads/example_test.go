package heads_test

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/heads"
)

// An FCN head maps the features of 6×4 patches to logits at eight times their resolution.
func ExampleSegmentation() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	head := heads.Segmentation{Kind: heads.FCN, Classes: 21, Width: 8}
	exec := model.MustNewExec(b, model.NewStore(), head.Logits)
	features := tensors.FromShape(shapes.Make(dtypes.Float32, 2, 6, 4, 64)) // [batch, rows, columns, features]
	fmt.Println(exec.MustCall(features)[0].Shape())
	// Output: (Float32)[48, 32, 2, 21]
}

func ExamplePredictPixels() {
	logits := []float32{1, 0, 0, 1} // Two patches side by side, two classes.
	fmt.Println(heads.PredictPixels(logits, 1, 2, 2, 1, 4))
	// Output: [0 0 1 1]
}

func ExampleProjector() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	projector := heads.Projector{HiddenDim: 32, OutDim: 16}
	exec := model.MustNewExec(b, model.NewStore(), func(scope *model.Scope, tokens *graph.Node) *graph.Node {
		return projector.Project(scope, tokens)
	})
	tokens := tensors.FromShape(shapes.Make(dtypes.Float32, 2, 6, 4, 64))
	fmt.Println(exec.MustCall(tokens)[0].Shape())
	// Output: (Float32)[2, 6, 4, 16]
}
