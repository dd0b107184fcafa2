package encoder

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

// ViT is a vision transformer (Dosovitskiy et al., 2021) as in DINO: a [CLS] token and one token per patch, blocks that normalise before
// attention and before an MLP four times as wide, and a final normalisation. [ViTByName] returns the usual ones.
type ViT struct {
	Name      string
	PatchSize int // Height and width of a patch in pixels.
	Dim       int // Length of a token.
	Depth     int // Number of blocks.
	NumHeads  int // Number of attention heads, a divisor of Dim.
	GridSize  int // Rows and columns of the stored position embeddings: 14 for patches of 16 in images of 224².

	// Positions is the method of resizing position embeddings for images of other sizes.
	Positions Positions
	// Prototypes is the number of object prototypes of the Object-Aware Filter in the last block: 64 in the paper, 0 for no filter.
	Prototypes int
	// InitStd is the standard deviation of the initial tokens, positions and weights of linear layers, which are normally distributed; 0
	// for DINO's 0.02.
	InitStd float64
	// ComputeDType is the dtype of matrix products and activations; the zero value is the dtype of the images. Variables and returned tokens
	// always have the dtype of the images. So float32 images with bfloat16 here train with float32 master weights. Normalisation and softmax
	// are computed in at least float32.
	ComputeDType dtypes.DType
	// GradientCheckpointing makes training store only the input of each block and recompute the rest of the block in the backward pass.
	GradientCheckpointing bool
}

// vits lists the usual sizes: the paper's three ("Network architecture") and a tiny one that runs in seconds on a CPU.
var vits = []ViT{
	{Name: "vit-s16", PatchSize: 16, Dim: 384, Depth: 12, NumHeads: 6, GridSize: 14},
	{Name: "vit-b16", PatchSize: 16, Dim: 768, Depth: 12, NumHeads: 12, GridSize: 14},
	{Name: "vit-b8", PatchSize: 8, Dim: 768, Depth: 12, NumHeads: 12, GridSize: 28},
	// With 0.02, so narrow a network is almost linear in the pixels and stays so for hundreds of steps. 0.1 is close to Xavier's value.
	{Name: "vit-tiny", PatchSize: 8, Dim: 64, Depth: 3, NumHeads: 4, GridSize: 6, InitStd: 0.1},
}

// ViTByName returns "vit-s16", "vit-b16" or "vit-b8", with position embeddings for images of 224², or "vit-tiny", with 3 blocks of width 64,
// patches of 8 and positions for images of 48². Positions are resized as in DINO, and there is no filter. The error for an unknown name lists
// these names.
func ViTByName(name string) (ViT, error) {
	for _, v := range vits {
		if v.Name == name {
			v.Positions = DINOPositions
			return v, nil
		}
	}
	return ViT{}, fmt.Errorf("unknown vision transformer %q, want one of %s", name, strings.Join(ViTNames(), ", "))
}

// ViTNames lists the names that [ViTByName] knows.
func ViTNames() (names []string) {
	for _, v := range vits {
		names = append(names, v.Name)
	}
	return names
}

// Check returns an error that names the first invalid field.
func (v ViT) Check() error {
	for _, field := range []struct {
		name         string
		value, least int
	}{{"PatchSize", v.PatchSize, 1}, {"Dim", v.Dim, 1}, {"Depth", v.Depth, 1}, {"NumHeads", v.NumHeads, 1}, {"GridSize", v.GridSize, 1},
		{"Prototypes", v.Prototypes, 0}} {
		if field.value < field.least {
			return fmt.Errorf("vision transformer: %s %d is below %d", field.name, field.value, field.least)
		}
	}
	if v.Dim%v.NumHeads != 0 {
		return fmt.Errorf("vision transformer: Dim %d is not a multiple of NumHeads %d", v.Dim, v.NumHeads)
	}
	if !(v.InitStd >= 0) {
		return fmt.Errorf("vision transformer: InitStd %g is negative", v.InitStd)
	}
	if v.ComputeDType != dtypes.InvalidDType && !v.ComputeDType.IsFloat() {
		return fmt.Errorf("vision transformer: ComputeDType %s is not a floating-point type", v.ComputeDType)
	}
	return v.Positions.Check()
}

// Tokens holds the outputs of a [ViT] for a batch of images. Outputs that a graph does not use cost nothing.
type Tokens struct {
	Class   *Node // The [CLS] token after the final normalisation, [batch, Dim].
	Patches *Node // The patch tokens after the final normalisation, [batch, rows, columns, Dim].

	Blocks    []*Node // The output of each block, not normalised, with the [CLS] token first: [batch, 1 + rows·columns, Dim].
	Attention []*Node // The attention maps of each block, [batch, NumHeads, 1 + rows·columns, 1 + rows·columns]. The last axis sums to 1.

	// These are nil without the Object-Aware Filter:
	FilterAttention *Node // Attention of each patch to the prototypes, [batch, NumHeads, rows, columns, Prototypes]. The last axis sums to 1.
	Prototypes      *Node // The prototypes U, [Prototypes, 3, 3, Dim].
}

// Tokens maps standardised images, [batch, height, width, 3], to tokens. Height and width are multiples of PatchSize, with rows =
// height/PatchSize and columns = width/PatchSize.
//
// Variables live under scope with the names of DINO and timm, with "/" for ".", in the layouts of package layers. They have the dtype of the
// images, and calls with the same scope share them. Tokens panics on images of another shape and if [ViT.Check] returns an error.
func (v ViT) Tokens(scope *model.Scope, images *Node) Tokens {
	if err := v.Check(); err != nil {
		panic(err)
	}
	images.AssertDims(-1, -1, -1, 3)
	batch, height, width := images.Shape().Dim(0), images.Shape().Dim(1), images.Shape().Dim(2)
	if height%v.PatchSize != 0 || width%v.PatchSize != 0 {
		exceptions.Panicf("images of %d×%d pixels cannot be split into patches of %d", height, width, v.PatchSize)
	}
	rows, columns := height/v.PatchSize, width/v.PatchSize
	p := parameters{g: images.Graph(), master: images.DType(), compute: v.ComputeDType, initStd: v.InitStd}
	if p.initStd == 0 {
		p.initStd = 0.02
	}
	if p.compute == dtypes.InvalidDType {
		p.compute = images.DType()
	}

	var out Tokens
	x := v.embed(scope, p, images, rows, columns)
	for i := range v.Depth {
		if v.GradientCheckpointing {
			x = x.Checkpoint()
		}
		block := scope.At("blocks").At("%d", i)
		y, maps := v.attention(block.At("attn"), p, layerNorm(block.At("norm1"), p, x))
		x = Add(x, y)
		if v.Prototypes > 0 && i == v.Depth-1 {
			x = v.filter(block.At("filter"), p, x, rows, columns, &out)
		}
		x = Add(x, v.mlp(block.At("mlp"), p, layerNorm(block.At("norm2"), p, x)))
		out.Blocks, out.Attention = append(out.Blocks, x), append(out.Attention, maps)
	}
	if v.GradientCheckpointing {
		x = x.StopCheckpoint()
	}
	x = ConvertDType(layerNorm(scope.At("norm"), p, x), p.master)
	out.Class = Reshape(SliceAxis(x, 1, AxisElem(0)), batch, v.Dim)
	out.Patches = Reshape(SliceAxis(x, 1, AxisRange(1)), batch, rows, columns, v.Dim)
	return out
}

// embed maps patches to tokens with positions, [batch, 1 + rows·columns, Dim], the [CLS] token first.
func (v ViT) embed(scope *model.Scope, p parameters, images *Node, rows, columns int) *Node {
	batch := images.Shape().Dim(0)
	patches := Reshape(images, batch, rows, v.PatchSize, columns, v.PatchSize, 3)
	patches = Reshape(TransposeAllAxes(patches, 0, 1, 3, 2, 4, 5), batch*rows*columns, v.PatchSize*v.PatchSize*3)
	proj := scope.At("patch_embed").At("proj")
	initial := uniform(v.PatchSize * v.PatchSize * 3)
	weight := p.node(proj, "weight", initial, v.PatchSize, v.PatchSize, 3, v.Dim)
	x := MatMul(ConvertDType(patches, p.compute), Reshape(weight, v.PatchSize*v.PatchSize*3, v.Dim))
	x = Add(x, InsertAxes(p.node(proj, "bias", initial, v.Dim), 0))
	x = Reshape(x, batch, rows*columns, v.Dim)

	class := p.masterNode(scope, "cls_token", p.normal, 1, 1, v.Dim)
	positions := p.masterNode(scope, "pos_embed", p.normal, 1, 1+v.GridSize*v.GridSize, v.Dim)
	class = Add(class, SliceAxis(positions, 1, AxisElem(0)))
	grid := Reshape(SliceAxis(positions, 1, AxisRange(1)), v.GridSize, v.GridSize, v.Dim)
	grid = Reshape(resizePositions(grid, v.Positions, rows, columns), 1, rows*columns, v.Dim)

	x = Add(x, ConvertDType(grid, p.compute))
	class = BroadcastToDims(ConvertDType(class, p.compute), batch, 1, v.Dim)
	x = Concatenate([]*Node{class, x}, 1)
	x.AssertDims(batch, 1+rows*columns, v.Dim)
	return x
}
