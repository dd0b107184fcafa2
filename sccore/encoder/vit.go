package encoder

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

// ViT is a vision transformer (Dosovitskiy et al., 2021) as DINO trains it: a [CLS] token and one token a patch, blocks that normalise
// before attention and before a perceptron four times as wide, and a last normalisation. [ViTByName] makes the usual ones.
type ViT struct {
	Name      string
	PatchSize int // Side of a patch in pixels.
	Dim       int // Length of a token.
	Depth     int // Number of blocks.
	NumHeads  int // Heads of attention; they divide Dim.
	GridSize  int // Patches along each side of the images that position embeddings are stored for: 14 for patches of 16 in 224².

	// Positions is how position embeddings are resized for other images.
	Positions Positions
	// Prototypes is the number of object prototypes of the Object-Aware Filter in the last block: 64 in the paper, 0 for no filter.
	Prototypes int
	// InitStd is that of the initial tokens, positions and weights of linear layers, drawn from a normal distribution; 0 for DINO's 0.02.
	InitStd float64
	// ComputeDType is the dtype of matrix products and activations; the zero value is that of the images. Variables have the images' dtype
	// whatever it is, and so have the tokens: float32 images with bfloat16 here is training with float32 master weights. Normalisation
	// and softmax are computed in at least float32.
	ComputeDType dtypes.DType
	// GradientCheckpointing makes training keep the input of each block only and compute the rest of the block a second time in the backward pass.
	GradientCheckpointing bool
}

// vits are the usual sizes: the paper's three ("Network architecture") and one for seconds on a CPU.
var vits = []ViT{
	{Name: "vit-s16", PatchSize: 16, Dim: 384, Depth: 12, NumHeads: 6, GridSize: 14},
	{Name: "vit-b16", PatchSize: 16, Dim: 768, Depth: 12, NumHeads: 12, GridSize: 14},
	{Name: "vit-b8", PatchSize: 8, Dim: 768, Depth: 12, NumHeads: 12, GridSize: 28},
	// With 0.02 so narrow a network is nearly a linear map of the pixels, and stays one for hundreds of steps. 0.1 is about Xavier's.
	{Name: "vit-tiny", PatchSize: 8, Dim: 64, Depth: 3, NumHeads: 4, GridSize: 6, InitStd: 0.1},
}

// ViTByName returns "vit-s16", "vit-b16" or "vit-b8", whose position embeddings are for 224², or "vit-tiny", which has 3 blocks of width
// 64, patches of 8 and positions for 48². Positions are resized as DINO does it, and there is no filter. Any other name is an error that
// lists these.
func ViTByName(name string) (ViT, error) {
	for _, v := range vits {
		if v.Name == name {
			v.Positions = DINOPositions
			return v, nil
		}
	}
	return ViT{}, fmt.Errorf("no vision transformer %q: there are %s", name, strings.Join(ViTNames(), ", "))
}

// ViTNames lists the names that [ViTByName] knows.
func ViTNames() (names []string) {
	for _, v := range vits {
		names = append(names, v.Name)
	}
	return names
}

// Check returns an error that names the first field that makes no sense.
func (v ViT) Check() error {
	for _, field := range []struct {
		name         string
		value, least int
	}{{"Patch", v.PatchSize, 1}, {"Dim", v.Dim, 1}, {"Depth", v.Depth, 1}, {"Heads", v.NumHeads, 1}, {"Side", v.GridSize, 1}, {"Prototypes", v.Prototypes, 0}} {
		if field.value < field.least {
			return fmt.Errorf("vision transformer: %s %d is below %d", field.name, field.value, field.least)
		}
	}
	if v.Dim%v.NumHeads != 0 {
		return fmt.Errorf("vision transformer: Dim %d is not a multiple of Heads %d", v.Dim, v.NumHeads)
	}
	if !(v.InitStd >= 0) {
		return fmt.Errorf("vision transformer: Deviation %g is negative", v.InitStd)
	}
	if v.ComputeDType != dtypes.InvalidDType && !v.ComputeDType.IsFloat() {
		return fmt.Errorf("vision transformer: Compute %s is no floating-point type", v.ComputeDType)
	}
	return v.Positions.Check()
}

// Tokens is what a [ViT] makes of a batch of images. What a graph does not use of it costs nothing.
type Tokens struct {
	Class   *Node // The [CLS] token after the last normalisation, [batch, Dim].
	Patches *Node // The patch tokens after it, [batch, rows, columns, Dim].

	Blocks    []*Node // All tokens, [CLS] first, as each block leaves them, not normalised: [batch, 1 + rows·columns, Dim].
	Attention []*Node // The attention maps of each block, [batch, Heads, 1 + rows·columns, 1 + rows·columns]: the last axis sums to 1.

	// With the Object-Aware Filter, nil without:
	FilterAttention *Node // What each patch takes of each prototype, [batch, Heads, rows, columns, Prototypes]: the last axis sums to 1.
	Prototypes      *Node // The prototypes U themselves, [Prototypes, 3, 3, Dim].
}

// Tokens maps images, [batch, height, width, 3] and normalised, to tokens. Height and width are multiples of Patch, otherwise of any
// size; rows = height/Patch and columns = width/Patch.
//
// Variables live under scope, under the names of DINO's and timm's code with "/" for "." and the layouts of this package, and have the
// images' dtype. Several calls with one scope share them. It panics on images of another shape and where [ViT.Check] finds fault.
func (v ViT) Tokens(scope *model.Scope, images *Node) Tokens {
	if err := v.Check(); err != nil {
		panic(err)
	}
	images.AssertDims(-1, -1, -1, 3)
	batch, height, width := images.Shape().Dim(0), images.Shape().Dim(1), images.Shape().Dim(2)
	if height%v.PatchSize != 0 || width%v.PatchSize != 0 {
		exceptions.Panicf("images of %d×%d pixels are not made of patches of %d", height, width, v.PatchSize)
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

// embed makes tokens of patches: [batch, 1 + rows·columns, Dim], the [CLS] token first, positions added.
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
