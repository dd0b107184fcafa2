// Package semcon gives the features of images by a vision transformer, in three lines:
//
//	vit, err := semcon.Open("dino_deitsmall16_pretrain.pth")
//	features, err := vit.Features(img) // Any image.Image.
//	fmt.Println(features.Class[:3], features.Patch(0, 0)[:3], features.Rows, features.Columns)
//
// A file of weights goes in, .pth or .safetensors, as package sccore/weights reads it: from DINO, iBOT, MAE, DINOv2, DINOv3 and their like, from timm and
// transformers, or trained by this project. Features of the whole image and of each patch come out. The image is preprocessed as by the makers of the
// weights. Package sccore/evaluation computes features of many images at once; sccore/encoder holds the transformer as a function of graph nodes, to train it
// and to build on it. docs/architecture.md leads through the tree.
package semcon

import (
	"context"
	"image"
	"sync"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/weights"
	"github.com/semcon/semcon/sccore/weights/hub"
)

// ViT is a vision transformer with its weights, ready to run. Its fields may be set between two calls of [ViT.Features].
type ViT struct {
	// Preprocessing makes the input of an image. By default it is as the makers of the weights do it, if a config.json of timm or a preprocessor_config.json of
	// transformers beside the file says so, and else as DINO does.
	Preprocessing datasets.Preprocessing
	// Size is the height and width in pixels of the crop that the transformer sees, a multiple of its patches; 224 if the makers do not say.
	Size int

	encoder *evaluation.Encoder
}

// Features are the features of one image.
type Features struct {
	Class         []float32 // Of the whole image: the [CLS] token.
	Patches       []float32 // Of each patch, [Rows, Columns, Dim], row by row.
	Rows, Columns int       // The grid of patches.
	Dim           int       // Length of each feature.
}

// Patch returns the feature of the patch in a row and a column, counted from the upper left, as a slice of Patches.
func (f Features) Patch(row, column int) []float32 {
	at := (row*f.Columns + column) * f.Dim
	return f.Patches[at : at+f.Dim : at+f.Dim]
}

// engine is the process's own: two of them would share no memory.
var engine = sync.OnceValues(backend.Open)

// Open reads a transformer from a file of weights, or by a name such as facebook/dino-vits16 that [hub.Locate] takes, which may download it without a word:
// hub.Locate shows progress and can be stopped. A key that is not understood is an error; those that match a pattern of ignore, with * for any text, are left out. It
// runs on XLA if the plugin is installed ("semcon lab --setup-only"), and else on the pure-Go engine; $GOMLX_BACKEND chooses. The error is one line that names the file.
func Open(file string, ignore ...string) (_ *ViT, err error) {
	defer try.Handle(&err)
	file = try.E1(hub.Locate(context.Background(), file, hub.Watch{}))
	read := try.E1(weights.ReadViT(file, encoder.ViT{}, "", ignore...))
	try.E(read.Complete())
	preprocessing, size, _ := try.E3(weights.ReadPreprocessing(file))
	b := try.E1(engine())
	e := try.E1(evaluation.OpenEncoder(b, read, 1, 0))
	return &ViT{Preprocessing: preprocessing, Size: size, encoder: e}, nil
}

// Features returns the features of an image. The first call for a size compiles the transformer. Features that are not finite are an error. It is not safe
// for concurrent use.
func (v *ViT) Features(img image.Image) (_ Features, err error) {
	defer try.Handle(&err)
	vit := v.encoder.ViT
	pixels, size := try.E2(v.Preprocessing.Apply(img, v.Size, vit.PatchSize))
	all := try.E1(v.encoder.ExtractAll([]evaluation.Image{evaluation.NewImage(pixels, size, v.Preprocessing)}, evaluation.Outputs{Patches: true}))
	f := all[0][0]
	return Features{Class: f.Class, Patches: f.Patches, Rows: f.Rows, Columns: f.Columns, Dim: vit.Dim}, nil
}

// Architecture returns what the transformer is: its patches, width, blocks and heads.
func (v *ViT) Architecture() encoder.ViT { return v.encoder.ViT }

// Close frees the memory of the transformer.
func (v *ViT) Close() { v.encoder.Close() }
