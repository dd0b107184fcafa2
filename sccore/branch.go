package sccore

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/views"
)

// The scopes of the two branches, and what stands below each.
const (
	onlineScope    = "online"
	targetScope    = "target"
	encoderScope   = "encoder"
	imageHeadScope = "image_head"
	patchHeadScope = "patch_head"
)

// shown are views of one size of some images.
type shown struct {
	pixels  *Node // [views·images, size, size, 3] in [0, 1], the first views of all images first.
	params  *Node // Where they are from, [views·images, NumParams].
	images  int
	objects int // How many object-centric images are first among them.
}

// outputs are what a branch makes of views. Nodes that no loss uses are nil.
type outputs struct {
	params *Node // [views, images, NumParams]

	class  *Node // [CLS] tokens, [views, images, D].
	tokens *Node // Patch tokens, [views, images, rows, columns, D].

	image   *Node // f̄, projected [CLS] tokens of the object-centric images, [views, objects, Out].
	patches *Node // f, projected patch tokens, [views, images, rows, columns, Out].

	prototypes *Node // U, [Prototypes, 3, 3, D].
}

// show makes the views of images, bytes, that params describe.
func (s step) show(images, params *Node, size, objects int) shown {
	pixels := ConvertDType(views.Apply(images, params, size), s.dtype)
	return shown{pixels: pixels, params: params, images: images.Shape().Dim(0), objects: objects}
}

// branch runs a branch once on all views, which are of one size.
func (s step) branch(scope *model.Scope, all ...shown) []outputs {
	var pixels []*Node
	for _, views := range all {
		pixels = append(pixels, views.pixels)
	}
	tokens := s.vit.Tokens(scope.At(encoderScope), encoder.Standardize(Concatenate(pixels, 0)))
	var made []outputs
	from := 0
	for _, views := range all {
		until := from + views.pixels.Shape().Dim(0)
		part := func(x *Node) *Node { return byView(SliceAxis(x, 0, AxisRange(from, until)), views.images) }
		out := outputs{params: byView(views.params, views.images), class: part(tokens.Class), tokens: part(tokens.Patches), prototypes: tokens.Prototypes}
		if s.hasImageLoss() && views.objects > 0 {
			out.image = s.ImageHead.Project(scope.At(imageHeadScope), SliceAxis(out.class, 1, AxisRange(0, views.objects)))
		}
		if s.hasPatchLoss() {
			out.patches = s.PatchHead.Project(scope.At(patchHeadScope), out.tokens)
		}
		made = append(made, out)
		from = until
	}
	return made
}

// byView gives rows, [views·images, ...], an axis for the views.
func byView(x *Node, images int) *Node {
	dims := x.Shape().Dimensions
	return Reshape(x, append([]int{dims[0] / images, images}, dims[1:]...)...)
}

// ofViews returns some views of what [byView] made, one after the other: [len(numbers)·images, ...].
func ofViews(x *Node, numbers ...int) *Node {
	var parts []*Node
	for _, number := range numbers {
		parts = append(parts, Reshape(SliceAxis(x, 0, AxisElem(number)), x.Shape().Dimensions[1:]...))
	}
	return Concatenate(parts, 0)
}
