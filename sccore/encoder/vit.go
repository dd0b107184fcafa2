package encoder

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/settings"
)

// ViT is a vision transformer (Dosovitskiy et al., 2021): a [CLS] token and one token per patch, blocks that normalise before attention and
// before an MLP, and a final normalisation. The zero values of its parts are DINO's transformer of 2021. [ViTByName] returns the usual ones.
type ViT struct {
	Name      string // What [ViTByName] makes this transformer of; [ViT.Named] sets it.
	PatchSize int    `range:"[1,)"` // Height and width of a patch in pixels.
	Dim       int    `range:"[1,)"` // Length of a token.
	Depth     int    `range:"[1,)"` // Number of blocks.
	NumHeads  int    `range:"[1,)"` // Number of attention heads, a divisor of Dim.
	GridSize  int    `range:"[0,)"` // Rows and columns of the stored position embeddings: 14 for patches of 16 in images of 224². 0 for none, with RoPE.

	// The parts that later transformers have.

	Registers  int     `range:"[0,)"` // Register tokens, between [CLS] and the patches (Darcet et al., 2024). With them [CLS] has no position embedding, as in timm.
	LayerScale bool    // Learnt factors on the residuals of attention and MLP (Touvron et al., 2021).
	MLPWidth   int     `range:"[0,)"` // Width of the MLP's hidden layer; 0 for 4·Dim.
	SwiGLU     bool    // The hidden layer is silu(W1·x)·W2·x (Shazeer, 2020), with W1 and W2 in one matrix; else gelu(W1·x).
	QKNorm     bool    // Queries and keys of each head are normalised.
	Bias       Bias    `oneof:"|qv|none"` // Which of queries, keys and values have a bias.
	RoPE       RoPE    // Rotary position embeddings.
	Epsilon    float64 `range:"[0,)"` // What normalisation adds to the variance; 0 for DINO's 1e-6.

	// Positions is the method of resizing position embeddings for images of other sizes.
	Positions Positions `oneof:"dino|timm|transformers"`
	// Prototypes is the number of object prototypes of the Object-Aware Filter: 64 in the paper, 0 for no filter.
	Prototypes int `range:"[0,)"`
	// Filter is what stands in the place of the Object-Aware Filter, if there is one.
	Filter Filter `oneof:"|frozen|block"`
	// BlocksAfterFilter is the number of blocks after the one that has the Object-Aware Filter: 0 for the last block. With 1 or more [CLS] attends to
	// filtered patches. Without prototypes it does not count.
	BlocksAfterFilter int
	// InitStd is the standard deviation of the initial tokens, positions and weights of linear layers, which are normally distributed; 0 for DINO's 0.02.
	InitStd float64 `range:"[0,)"`
	// ComputeDType is the dtype of matrix products and activations; the zero value is the dtype of the images. Variables and returned tokens always have the dtype
	// of the images. So float32 images with bfloat16 here train with float32 master weights. Normalisation and softmax are computed in at least float32.
	ComputeDType dtypes.DType
	// GradientCheckpointing makes training store only the input of each block and recompute the rest of the block in the backward pass.
	GradientCheckpointing bool
}

// Bias says which of queries, keys and values have a bias.
type Bias string

// Which biases there are.
const (
	QKVBias Bias = ""     // All of them, as in DINO.
	QVBias  Bias = "qv"   // None of keys, as in DINOv3.
	NoBias  Bias = "none" // None at all.
)

// Filter is an Object-Aware Filter or a control of it. Controls show what its gain comes from.
type Filter string

// The filters.
const (
	ObjectAware      Filter = ""       // The paper's.
	FrozenPrototypes Filter = "frozen" // The same, whose prototypes keep their initial values.
	// ResidualBlock is gelu(norm(x)·W1)·W2 of each patch, without prototypes. It has as many parameters, or Dim fewer where exactly one of Dim and Prototypes is odd.
	ResidualBlock Filter = "block"
)

// Rules returns an error that names the first fields that contradict each other; see [settings.Check].
func (v ViT) Rules() error {
	switch {
	case v.GridSize == 0 && v.RoPE.Base == 0:
		return errors.New("no positions: GridSize is 0, and there is no RoPE")
	case v.Prototypes > 0 && (v.BlocksAfterFilter < 0 || v.BlocksAfterFilter >= v.Depth):
		return settings.Between("BlocksAfterFilter", v.BlocksAfterFilter, 0, v.Depth-1)
	case v.Dim%v.NumHeads != 0:
		return fmt.Errorf("width Dim %d is not a multiple of NumHeads %d", v.Dim, v.NumHeads)
	case v.RoPE.Base > 0 && v.Dim/v.NumHeads%4 != 0:
		return fmt.Errorf("heads of width %d cannot be rotated, want a multiple of 4", v.Dim/v.NumHeads)
	case v.ComputeDType != dtypes.InvalidDType && !v.ComputeDType.IsFloat():
		return fmt.Errorf("type ComputeDType %s is not a floating-point type", v.ComputeDType)
	}
	return nil
}

// NearestSize returns the multiple of the patch size, at least 1, that is nearest to a size in pixels. Of two it is the larger one.
func (v ViT) NearestSize(size int) int {
	return max((size+v.PatchSize/2)/v.PatchSize, 1) * v.PatchSize
}

// CheckSize returns an error that names a setting, a size in pixels, unless it is a multiple of the patch size.
func (v ViT) CheckSize(name string, size int) error {
	if size%v.PatchSize == 0 {
		return nil
	}
	return fmt.Errorf("%s %d is not a multiple of %s's patch size %d, want %d", name, size, v.Name, v.PatchSize, v.NearestSize(size))
}

// Tokens holds the outputs of a [ViT] for a batch of images. Outputs that a graph does not use cost nothing.
type Tokens struct {
	Class   *Node // The [CLS] token after the final normalisation, [batch, Dim].
	Patches *Node // The patch tokens after the final normalisation, [batch, rows, columns, Dim].

	// The output of each block, not normalised, with the [CLS] token first and then the registers: [batch, 1 + Registers + rows·columns, Dim].
	Blocks []*Node
	// The attention maps of each block among the same tokens, [batch, NumHeads, tokens, tokens]. The last axis sums to 1.
	Attention []*Node
	// The keys of each block's attention, before a rotation by RoPE, the heads side by side: [batch, 1 + Registers + rows·columns, Dim].
	Keys []*Node

	// These are nil without the Object-Aware Filter:
	FilterAttention *Node // Attention of each patch to the prototypes, [batch, NumHeads, rows, columns, Prototypes]. The last axis sums to 1.
	Prototypes      *Node // The prototypes U, [Prototypes, 3, 3, Dim].
}

// Tokens maps standardised images, [batch, height, width, 3], to tokens. Height and width are multiples of PatchSize, with rows =
// height/PatchSize and columns = width/PatchSize.
//
// Variables live under scope with the names of DINO and timm, with "/" for ".", in the layouts of package layers. They have the dtype of the
// images, and calls with the same scope share them. Tokens panics on images of another shape and if [settings.Check] returns an error.
func (v ViT) Tokens(scope *model.Scope, images *Node) Tokens {
	return v.TokensInTraining(scope, images, nil, nil)
}

// DropPaths draws the factors of [ViT.TokensInTraining] for a batch, [depth, 2, batch]: the probability of 0 rises linearly from 0 in the first block to most in
// the last one.
func DropPaths(random *rand.Rand, most float64, depth, batch int) []float32 {
	factors := make([]float32, 0, 2*depth*batch)
	for block := range depth {
		p := most * float64(block) / float64(max(1, depth-1))
		for range 2 * batch {
			factors = append(factors, lo.Ternary(random.Float64() < p, 0, float32(1/(1-p))))
		}
	}
	return factors
}

// TokensInTraining is [ViT.Tokens] with stochastic depth and hidden patches.
//
//   - keep: stochastic depth (Huang et al., 2016). What attention and MLP of each block add to the tokens of an image is multiplied by a factor of that image,
//     [Depth, 2, batch], attention's first: 0 for what is dropped and 1/(1 − p) for the rest, where p is the probability of dropping it. Nil keeps
//     everything. What the Object-Aware Filter adds is always kept.
//   - masks: hidden patches (Bao et al., 2022, "BEiT"; iBOT). Where masks, [batch, rows·columns] of bool, is true, a learnt vector takes the place of the embedded
//     patch, before the positions are added. The vector is the variable masked_embed, [1, Dim], which starts at 0 as in iBOT; it is not among [ViT.Weights]. Nil
//     hides nothing and needs no such variable.
func (v ViT) TokensInTraining(scope *model.Scope, images, keep, masks *Node) Tokens {
	settings.Require(v)
	images.AssertDims(-1, -1, -1, 3)
	batch, height, width := images.Shape().Dim(0), images.Shape().Dim(1), images.Shape().Dim(2)
	if height%v.PatchSize != 0 || width%v.PatchSize != 0 {
		exceptions.Panicf("images of %d×%d pixels cannot be split into patches of %d", height, width, v.PatchSize)
	}
	rows, columns := height/v.PatchSize, width/v.PatchSize
	p := v.parameters(images)

	// Recomputation would lose the gradients that are written by hand.
	p.lean = !v.GradientCheckpointing

	kept := func(block, branch int, y *Node) *Node {
		if keep == nil {
			return y
		}
		keep.AssertDims(v.Depth, 2, batch)
		factor := Reshape(Slice(keep, AxisElem(block), AxisElem(branch)), batch, 1, 1)
		return Mul(y, ConvertDType(factor, y.DType()))
	}
	var out Tokens
	turn := v.rotation(p, rows, columns)
	x := v.embed(scope, p, images, masks, rows, columns)
	for i := range v.Depth {
		if v.GradientCheckpointing {
			x = x.Checkpoint()
		}
		block := scope.At("blocks").At("%d", i)
		y, maps, keys := v.attention(block.At("attn"), p, norm(block.At("norm1"), p, x), turn)
		x = Add(x, kept(i, 0, v.scaled(block.At("ls1"), p, y)))
		if v.filtered(i) {
			x = v.filter(block.At("filter"), p, x, rows, columns, &out)
		}
		y = v.mlp(block.At("mlp"), p, norm(block.At("norm2"), p, x))
		x = Add(x, kept(i, 1, v.scaled(block.At("ls2"), p, y)))
		out.Blocks, out.Attention = append(out.Blocks, x), append(out.Attention, maps)
		out.Keys = append(out.Keys, ConvertDType(keys, p.master))
	}
	if v.GradientCheckpointing {
		x = x.StopCheckpoint()
	}
	x = ConvertDType(layerNorm(scope.At("norm"), p, x), p.master)
	out.Class = Reshape(SliceAxis(x, 1, AxisElem(0)), batch, v.Dim)
	out.Patches = Reshape(SliceAxis(x, 1, AxisRange(v.prefix())), batch, rows, columns, v.Dim)
	return out
}

// parameters returns the variables for inputs of a graph.
func (v ViT) parameters(input *Node) parameters {
	return parameters{
		g: input.Graph(), master: input.DType(), compute: cmp.Or(v.ComputeDType, input.DType()),
		initStd: cmp.Or(v.InitStd, 0.02), epsilon: cmp.Or(v.Epsilon, 1e-6),
	}
}

// prefix is the number of tokens before those of the patches.
func (v ViT) prefix() int { return 1 + v.Registers }

// filtered reports whether a block has the Object-Aware Filter.
func (v ViT) filtered(block int) bool {
	return v.Prototypes > 0 && block == v.Depth-1-v.BlocksAfterFilter
}

// blockWidth is the width of the hidden layer of [ResidualBlock].
func (v ViT) blockWidth() int { return (prototypeSize*prototypeSize*v.Prototypes+5*v.Dim)/2 + 2 }

// PrototypesOf is how many prototypes a filter has for which a [ResidualBlock] of this width stands.
func (v ViT) PrototypesOf(width int) int {
	return (2*width - 4 - 5*v.Dim + prototypeSize*prototypeSize - 1) / (prototypeSize * prototypeSize)
}

// Hidden is the width of the MLP's hidden layer.
func (v ViT) Hidden() int { return cmp.Or(v.MLPWidth, 4*v.Dim) }

// positions is the number of position embeddings.
func (v ViT) positions() int {
	return v.GridSize*v.GridSize + lo.Ternary(v.Registers > 0, 0, 1)
}

// embed maps patches to tokens with positions, [batch, prefix + rows·columns, Dim].
func (v ViT) embed(scope *model.Scope, p parameters, images, masks *Node, rows, columns int) *Node {
	batch := images.Shape().Dim(0)
	patches := Reshape(images, batch, rows, v.PatchSize, columns, v.PatchSize, 3)
	patches = Reshape(TransposeAllAxes(patches, 0, 1, 3, 2, 4, 5), batch*rows*columns, v.PatchSize*v.PatchSize*3)
	proj := scope.At("patch_embed").At("proj")
	initial := layers.Uniform(proj, v.PatchSize*v.PatchSize*3)
	weight := p.node(proj, "weight", initial, v.PatchSize, v.PatchSize, 3, v.Dim)
	x := layers.Product(ConvertDType(patches, p.compute), Reshape(weight, v.PatchSize*v.PatchSize*3, v.Dim))
	x = layers.AddBias(x, p.masterNode(proj, "bias", initial, v.Dim))
	x = Reshape(x, batch, rows*columns, v.Dim)
	if masks != nil {
		masks.AssertDims(batch, rows*columns)
		learnt := Reshape(p.node(scope, "masked_embed", Zeros, 1, v.Dim), 1, 1, v.Dim)
		x = Where(BroadcastToShape(InsertAxes(masks, -1), x.Shape()), BroadcastToShape(learnt, x.Shape()), x)
	}

	class := p.masterNode(scope, "cls_token", p.normal(scope), 1, 1, v.Dim)
	var registers *Node
	if v.Registers > 0 {
		registers = p.masterNode(scope, "reg_token", p.normal(scope), 1, v.Registers, v.Dim)
	}
	if v.GridSize > 0 {
		positions := p.masterNode(scope, "pos_embed", p.normal(scope), 1, v.positions(), v.Dim)
		if registers == nil {
			class = Add(class, SliceAxis(positions, 1, AxisElem(0)))
			positions = SliceAxis(positions, 1, AxisRange(1))
		}
		grid := resizePositions(Reshape(positions, v.GridSize, v.GridSize, v.Dim), v.Positions, rows, columns)
		x = Add(x, ConvertDType(Reshape(grid, 1, rows*columns, v.Dim), p.compute))
	}
	if registers != nil {
		class = Concatenate([]*Node{class, registers}, 1)
	}
	class = BroadcastToDims(ConvertDType(class, p.compute), batch, v.prefix(), v.Dim)
	return Concatenate([]*Node{class, x}, 1)
}

// Positions names a method of resizing position embeddings for images of another size. All are bicubic and in common use. They place samples
// differently, so features of the same checkpoint differ by up to 2 between them.
type Positions string

const (
	// DINOPositions is the method of the official code of DINO, iBOT, Mugs, Leopart and of DINOv2 without registers: the cubic kernel with
	// a = −0.75, sampled as if the new grid had 0.1 more rows and columns than it has.
	DINOPositions Positions = "dino"
	// TimmPositions is the method of timm and of DINOv2 with registers, official and in transformers: the cubic kernel with a = −0.5,
	// antialiased when the grid shrinks.
	TimmPositions Positions = "timm"
	// TransformersPositions is the method of MAE, and of transformers for ViT and for DINOv2 without registers: the cubic kernel with a = −0.75.
	TransformersPositions Positions = "transformers"
)

// Matrix returns the [to][from] weights that resize one axis of a grid. A grid that keeps both sizes is not resized at all.
func (p Positions) Matrix(from, to int) [][]float64 {
	matrix := make([][]float64, to)
	for i := range matrix {
		matrix[i] = make([]float64, from)
		switch p {
		case TimmPositions:
			widenedRow(matrix[i], float64(from)/float64(to), i)
		case TransformersPositions:
			sampledRow(matrix[i], float64(from)/float64(to), i)
		default:
			sampledRow(matrix[i], float64(from)/(float64(to)+0.1), i)
		}
	}
	return matrix
}

// sampledRow is torch.nn.functional.interpolate: the four samples around the point. Samples beyond the border take the border's value.
func sampledRow(row []float64, step float64, i int) {
	at := step*(float64(i)+0.5) - 0.5
	first := int(math.Floor(at))
	for k := first - 1; k <= first+2; k++ {
		row[min(max(k, 0), len(row)-1)] += cubic(at-float64(k), -0.75)
	}
}

// widenedRow is the same with antialias=True: when shrinking, the kernel widens to the step between samples. Samples beyond the border are left out.
func widenedRow(row []float64, step float64, i int) {
	width := max(step, 1)
	centre := step * (float64(i) + 0.5)
	sum := 0.0
	for k := range row {
		if distance := (float64(k) + 0.5 - centre) / width; math.Abs(distance) < 2 {
			row[k] = cubic(distance, -0.5)
			sum += row[k]
		}
	}
	for k := range row {
		row[k] /= sum
	}
}

// cubic is Keys' convolution kernel (1981) with parameter a.
func cubic(x, a float64) float64 {
	x = math.Abs(x)
	switch {
	case x < 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return ((a*x-5*a)*x+8*a)*x - 4*a
	}
	return 0
}

// resizePositions maps a grid of embeddings, [size, size, dim], to [rows, columns, dim] by products with constant matrices, whose gradient is
// correct on every backend.
func resizePositions(grid *Node, method Positions, rows, columns int) *Node {
	size := grid.Shape().Dim(0)
	grid.AssertDims(size, size, -1)
	if rows == size && columns == size {
		return grid
	}
	matrix := func(to int) *Node {
		values := slices.Concat(method.Matrix(size, to)...)
		return ConvertDType(ConstTensor(grid.Graph(), tensors.FromFlatDataAndDimensions(values, to, size)), grid.DType())
	}
	grid = Einsum("or,rcd->ocd", matrix(rows), grid)
	return Einsum("oc,rcd->rod", matrix(columns), grid)
}
