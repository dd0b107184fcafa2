package weights_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/weights"
)

// A transformer is exported under timm's names and read back.
func ExampleReadViT() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	vit, err := encoder.ViTByName("vit-tiny")
	if err != nil {
		panic(err)
	}
	store := model.NewStore()
	model.MustNewExec(b, store, func(scope *model.Scope, images *graph.Node) *graph.Node {
		return vit.Tokens(scope, images).Class
	}).MustCall(tensors.FromShape(shapes.Make(dtypes.Float32, 1, 48, 48, 3)))

	folder, err := os.MkdirTemp("", "weights")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "vit.safetensors")
	if err := weights.Export(path, weights.Timm, store, "/", vit, nil, nil); err != nil {
		panic(err)
	}
	read, err := weights.ReadViT(path, encoder.ViT{}, "")
	if err != nil {
		panic(err)
	}
	fmt.Println(read.ViT.Name, len(read.Matched), "matched,", len(read.Reshaped), "reshaped,", len(read.Missing), "missing")
	if err := read.Apply(model.NewStore(), "/teacher"); err != nil {
		panic(err)
	}
	// Output:
	// vit-tiny 42 matched, 0 reshaped, 0 missing
}
