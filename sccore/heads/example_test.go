package heads_test

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
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

// The pyramid of a vision transformer, and UPerNet on it. In training, the auxiliary head adds its loss.
func ExampleDecoder_UPerNet() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	vit := encoder.ViT{PatchSize: 4, Dim: 8, Depth: 4, NumHeads: 2, GridSize: 4, Positions: encoder.DINOPositions}
	head := heads.Decoder{Classes: 21, Channels: 16, Dropout: 0.1, Train: true}
	store := model.NewStore()
	exec := model.MustNewExec(b, store, func(scope *model.Scope, images, labels *graph.Node) (logits, loss *graph.Node) {
		tokens := vit.Tokens(scope.At("backbone"), images)
		levels := heads.DefaultPyramid(vit.Depth).Levels(scope, tokens.Blocks, 4, 6, true)
		logits = head.UPerNet(scope, levels)
		beside := heads.CrossEntropy(head.Auxiliary(scope, levels), labels)
		return logits, graph.Add(heads.CrossEntropy(logits, labels), graph.MulScalar(beside, heads.AuxiliaryWeight))
	})
	images := tensors.FromShape(shapes.Make(dtypes.Float32, 2, 16, 24, 3)) // [batch, height, width, 3]
	labels := tensors.FromShape(shapes.Make(dtypes.Uint8, 16, 24, 2))      // [height, width, batch]
	out := exec.MustCall(images, labels)
	fmt.Println(out[0].Shape(), out[1].Shape()) // [4·rows, 4·columns, batch, classes]
	fmt.Println(store.GetVariable("/decode_head/psp_modules/0/1/conv/weight").Shape())
	// Output:
	// (Float32)[16, 24, 2, 21] (Float32)
	// (Float32)[1, 1, 8, 16]
}

// The pyramid reads the outputs of four blocks, with the [CLS] token first, and makes maps of four sizes from them.
func ExamplePyramid() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	pyramid := heads.DefaultPyramid(12)
	fmt.Println(pyramid.Blocks)
	exec := model.MustNewExec(b, model.NewStore(), func(scope *model.Scope, tokens *graph.Node) []*graph.Node {
		blocks := slices.Repeat([]*graph.Node{tokens}, 12) // A transformer has another output in each block.
		return pyramid.Levels(scope, blocks, 4, 6, true)
	})
	for _, level := range exec.MustCall(tensors.FromShape(shapes.Make(dtypes.Float32, 2, 1+4*6, 8))) {
		fmt.Println(level.Shape())
	}
	// Output:
	// [3 5 7 11]
	// (Float32)[16, 24, 2, 8]
	// (Float32)[8, 12, 2, 8]
	// (Float32)[4, 6, 2, 8]
	// (Float32)[2, 3, 2, 8]
}

func ExampleDecoder_Auxiliary() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	head := heads.Decoder{Classes: 21, Channels: 256, Dropout: 0.1}
	exec := model.MustNewExec(b, model.NewStore(), func(scope *model.Scope, level *graph.Node) *graph.Node {
		return head.Auxiliary(scope, []*graph.Node{nil, nil, level, nil}) // It takes level 2 only.
	})
	fmt.Println(exec.MustCall(tensors.FromShape(shapes.Make(dtypes.Float32, 4, 6, 2, 8)))[0].Shape())
	// Output: (Float32)[4, 6, 2, 21]
}

func ExampleDecoder_SemanticFPN() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	head := heads.Decoder{Classes: 21, NeckChannels: 16, Channels: 8, Dropout: 0.1}
	exec := model.MustNewExec(b, model.NewStore(), func(scope *model.Scope, tokens *graph.Node) *graph.Node {
		levels := heads.DefaultPyramid(1).Levels(scope, []*graph.Node{tokens}, 4, 6, false)
		return head.SemanticFPN(scope, levels)
	})
	fmt.Println(exec.MustCall(tensors.FromShape(shapes.Make(dtypes.Float32, 2, 1+4*6, 8)))[0].Shape())
	// Output: (Float32)[16, 24, 2, 21]
}

// Half of the pixels are ignored. They count in the mean, so that the loss is half of ln 2.
func ExampleCrossEntropy() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	logits := [][][][]float32{{{{0, 0}}}}             // [rows, columns, batch, classes]
	labels := [][][]uint8{{{0}, {255}}, {{255}, {1}}} // [height, width, batch]
	loss, err := graph.CallOnce(b, heads.CrossEntropy, logits, labels)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.4f\n", loss.Value())
	// Output: 0.3466
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

// DINO's head maps the [CLS] tokens of a batch to cosines with 16 directions.
func ExampleDINOHead() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	head := heads.DINOHead{HiddenDim: 32, BottleneckDim: 8, OutDim: 16, NormLastLayer: true}
	store := model.NewStore()
	exec := model.MustNewExec(b, store, head.Logits)
	fmt.Println(exec.MustCall(tensors.FromShape(shapes.Make(dtypes.Float32, 4, 12)))[0].Shape())
	fmt.Println(store.GetVariable("/last_layer/weight_v").Shape())
	// Output:
	// (Float32)[4, 16]
	// (Float32)[8, 16]
}
