package encoder_test

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
)

func ExampleViT() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	vit, err := encoder.ViTByName("vit-tiny")
	if err != nil {
		panic(err)
	}
	exec := model.MustNewExec(b, model.NewStore(), func(scope *model.Scope, images *graph.Node) (class, patches *graph.Node) {
		tokens := vit.Tokens(scope, encoder.Standardize(images))
		return tokens.Class, tokens.Patches
	})
	images := tensors.FromShape(shapes.Make(dtypes.Float32, 2, 48, 32, 3))
	outputs := exec.MustCall(images)
	fmt.Println("class", outputs[0].Shape(), "patches", outputs[1].Shape())
	// Output: class (Float32)[2, 64] patches (Float32)[2, 6, 4, 64]
}

func ExampleBackbone() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	backbone, err := encoder.ByName("conv4-w8")
	if err != nil {
		panic(err)
	}
	exec := model.MustNewExec(b, model.NewStore(), func(scope *model.Scope, images *graph.Node) *graph.Node {
		return backbone.Features(scope, encoder.Standardize(images), layers.Norm{})
	})
	images := tensors.FromShape(shapes.Make(dtypes.Float32, 2, 32, 32, 3))
	fmt.Println(exec.MustCall(images)[0].Shape())
	// Output: (Float32)[2, 32]
}
