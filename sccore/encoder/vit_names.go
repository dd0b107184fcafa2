package encoder

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/settings"
)

// tinyViT runs in seconds on a CPU. With 0.02, so narrow a network is almost linear in the pixels and stays so for hundreds of steps. 0.1 is close
// to Xavier's value.
var tinyViT = ViT{Name: "vit-tiny", PatchSize: 8, Dim: 64, Depth: 3, NumHeads: 4, GridSize: 6, InitStd: 0.1}

// vitSizes are the width, depth and heads of the sizes that have a letter.
var vitSizes = map[string][3]int{"ti": {192, 12, 3}, "s": {384, 12, 6}, "b": {768, 12, 12}, "l": {1024, 24, 16}, "h": {1280, 32, 20}, "g": {1536, 40, 24}}

// ViTByName returns a transformer by its name:
//
//   - "vit-s16", "vit-b16" and "vit-b8", the paper's: a size, a patch size, and position embeddings for images of 224². Other sizes are ti, l, h
//     and g, with the widths, depths and heads of timm and DINOv3, and others patch sizes are possible: "vit-l14".
//   - "vit-tiny": 3 blocks of width 64 with 4 heads, patches of 8 and positions for images of 48².
//   - "vit-48x2x3p14": width, depth, heads and patch size of any other.
//
// These are DINO's transformers of 2021. Parts of later ones follow, each after a hyphen, in this order: "grid37", the stored grid of positions;
// "reg4", registers; "ls", LayerScale; "mlp2048" and "swiglu4096", the MLP; "qknorm"; "qv" and "none", the [Bias]; "rope100", the base of RoPE,
// with "bf16" for rounded periods and no stored positions unless a grid is named; and "eps0.00001". So DINOv2's small transformer with registers is
// "vit-s14-grid37-reg4-ls", and DINOv3's is "vit-s16-reg4-ls-qv-rope100bf16-eps0.00001".
//
// Positions are resized as in DINO, and there is no filter. The error for an unknown name lists the usual ones.
func ViTByName(name string) (ViT, error) {
	parts := strings.Split(name, "-")
	size := min(2, len(parts)) // "vit-s16".
	v, ok := vitOfKind(strings.Join(parts[:size], "-"))
	for _, part := range parts[size:] {
		ok = ok && v.addPart(part)
	}
	if v.RoPE.Base > 0 && !strings.Contains(name, "-grid") {
		v.GridSize = 0
	}
	v.Positions = DINOPositions
	if !ok || settings.Check(v) != nil || v.Named().Name != name {
		return ViT{}, fmt.Errorf("unknown vision transformer %.80q, want one of %s, or such as vit-l14-grid37-reg4-ls", name, strings.Join(ViTNames(), ", "))
	}
	v.Name = name
	return v, nil
}

// ViTNames lists the usual names that [ViTByName] knows: the paper's three ("Network architecture") and the tiny one.
func ViTNames() []string { return []string{"vit-s16", "vit-b16", "vit-b8", tinyViT.Name} }

var (
	sizedName = regexp.MustCompile(`^vit-([a-z]+)([1-9]\d{0,2})$`)
	anyName   = regexp.MustCompile(`^vit-([1-9]\d{0,4})x([1-9]\d{0,2})x([1-9]\d{0,2})p([1-9]\d{0,2})$`)
	partName  = regexp.MustCompile(`^([a-z]+)([0-9.]*)(bf16)?$`)
)

// vitOfKind returns the transformer of a name without parts.
func vitOfKind(kind string) (v ViT, ok bool) {
	if kind == tinyViT.Name {
		return tinyViT, true
	}
	number := func(text string) int { n, _ := strconv.Atoi(text); return n } // Digits, by the expression.
	if found := sizedName.FindStringSubmatch(kind); found != nil {
		size := vitSizes[found[1]]
		v = ViT{PatchSize: number(found[2]), Dim: size[0], Depth: size[1], NumHeads: size[2]}
	} else if found := anyName.FindStringSubmatch(kind); found != nil {
		v = ViT{Dim: number(found[1]), Depth: number(found[2]), NumHeads: number(found[3]), PatchSize: number(found[4])}
	}
	if v.Dim == 0 || v.PatchSize > 224 {
		return v, false
	}
	v.Name, v.GridSize = kind, 224/v.PatchSize
	return v, true
}

// addPart adds the part that a piece of a name stands for.
func (v *ViT) addPart(text string) bool {
	found := partName.FindStringSubmatch(text)
	if found == nil || len(text) > 20 {
		return false
	}
	value, err := strconv.ParseFloat(found[2], 64)
	if err != nil && found[2] != "" {
		return false
	}
	n := int(value)
	switch found[1] {
	case "grid":
		v.GridSize = n
	case "reg":
		v.Registers = n
	case "ls":
		v.LayerScale = true
	case "mlp":
		v.MLPWidth = n
	case "swiglu":
		v.MLPWidth, v.SwiGLU = n, true
	case "qknorm":
		v.QKNorm = true
	case string(QVBias), string(NoBias):
		v.Bias = Bias(found[1])
	case "rope":
		v.RoPE = RoPE{value, found[3] != ""}
	case "eps":
		v.Epsilon = value
	default:
		return false
	}
	return n <= 1<<16
}

// Named returns the transformer with the name that [ViTByName] makes it of. The name does not say how positions are resized, nor anything about the
// filter, the initial values and the way of computing.
func (v ViT) Named() ViT {
	kind := fmt.Sprintf("vit-%dx%dx%dp%d", v.Dim, v.Depth, v.NumHeads, v.PatchSize)
	if letter, ok := lo.FindKey(vitSizes, [3]int{v.Dim, v.Depth, v.NumHeads}); ok {
		kind = fmt.Sprintf("vit-%s%d", letter, v.PatchSize)
	}
	if v.Dim == tinyViT.Dim && v.Depth == tinyViT.Depth && v.NumHeads == tinyViT.NumHeads && v.PatchSize == tinyViT.PatchSize {
		kind = tinyViT.Name
	}
	usual, _ := vitOfKind(kind)
	if v.RoPE.Base > 0 {
		usual.GridSize = 0
	}
	name := []string{kind}
	add := func(has bool, format string, values ...any) {
		if has {
			name = append(name, fmt.Sprintf(format, values...))
		}
	}
	decimal := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	add(v.GridSize != usual.GridSize, "grid%d", v.GridSize)
	add(v.Registers > 0, "reg%d", v.Registers)
	add(v.LayerScale, "ls")
	add(!v.SwiGLU && v.Hidden() != 4*v.Dim, "mlp%d", v.MLPWidth)
	add(v.SwiGLU, "swiglu%d", v.Hidden())
	add(v.QKNorm, "qknorm")
	add(v.Bias != QKVBias, "%s", v.Bias)
	rope := "rope" + decimal(v.RoPE.Base)
	if v.RoPE.BF16 {
		rope += "bf16"
	}
	add(v.RoPE.Base > 0, "%s", rope)
	add(v.Epsilon != 0 && v.Epsilon != 1e-6, "eps%s", decimal(v.Epsilon))
	v.Name = strings.Join(name, "-")
	return v
}

// normal initialises tokens, position embeddings and the weights of linear layers.
func (p parameters) normal(scope *model.Scope) model.VariableInitializer {
	return initializer.RandomNormalFn(scope, p.initStd)
}

// small initialises LayerScale, with the value of DINOv2 and DINOv3.
func small(g *Graph, shape shapes.Shape) *Node { return MulScalar(Ones(g, shape), 1e-5) }

// Weight is one trainable variable of a [ViT].
type Weight struct {
	Path   string // Below the transformer's scope: blocks/0/attn/qkv/weight. With "." for "/" it is the name in timm's VisionTransformer.
	Shape  []int
	Filter bool // It belongs to the Object-Aware Filter, which transformers of DINO and timm do not have.
}

// Weights lists the trainable variables that [ViT.Tokens] creates, in the order of DINO and timm.
func (v ViT) Weights() (all []Weight) {
	add := func(has bool, path string, shape ...int) {
		if has {
			all = append(all, Weight{path, shape, strings.Contains(path, "/filter/")})
		}
	}
	both := func(has bool, path string, shape ...int) {
		add(has, path+"/weight", shape...)
		add(has, path+"/bias", shape[len(shape)-1])
	}
	dim, halves := v.Dim, lo.Ternary(v.SwiGLU, 2, 1)
	add(true, "cls_token", 1, 1, dim)
	add(v.Registers > 0, "reg_token", 1, v.Registers, dim)
	add(v.GridSize > 0, "pos_embed", 1, v.positions(), dim)
	both(true, "patch_embed/proj", v.PatchSize, v.PatchSize, 3, dim)
	for i := range v.Depth {
		block := fmt.Sprintf("blocks/%d/", i)
		both(true, block+"norm1", dim)
		add(true, block+"attn/qkv/weight", dim, 3*dim)
		add(v.Bias == QKVBias, block+"attn/qkv/bias", 3*dim)
		add(v.Bias == QVBias, block+"attn/q_bias", dim)
		add(v.Bias == QVBias, block+"attn/v_bias", dim)
		head := dim / max(v.NumHeads, 1) // Weights of a transformer that has not been checked do not panic.
		both(v.QKNorm, block+"attn/q_norm", head)
		both(v.QKNorm, block+"attn/k_norm", head)
		both(true, block+"attn/proj", dim, dim)
		add(v.LayerScale, block+"ls1/gamma", dim)
		filtered, control := v.filtered(i), v.Filter == ResidualBlock
		add(filtered && !control, block+"filter/prototypes", v.Prototypes, prototypeSize, prototypeSize, dim)
		both(filtered, block+"filter/norm", dim)
		add(filtered && control, block+"filter/fc1/weight", dim, v.blockWidth())
		add(filtered && control, block+"filter/fc2/weight", v.blockWidth(), dim)
		for _, name := range []string{"q", "k", "v"} {
			both(filtered && !control, block+"filter/"+name, dim, dim)
		}
		both(filtered && !control, block+"filter/proj", 2*dim, dim)
		both(true, block+"norm2", dim)
		both(true, block+"mlp/fc1", dim, halves*v.Hidden())
		both(true, block+"mlp/fc2", v.Hidden(), dim)
		add(v.LayerScale, block+"ls2/gamma", dim)
	}
	both(true, "norm", dim)
	return all
}

// Size returns the number of values of the weight.
func (w Weight) Size() int { return lo.Product(w.Shape) }

// FLOPs counts the floating-point operations of the matrix products of a forward pass of one image of so many patches. A product and its sum count as two.
// With the backward pass there are about three times as many.
func (v ViT) FLOPs(patches int) float64 {
	n, dim := float64(patches), float64(v.Dim)
	tokens := n + 1 + float64(v.Registers)
	mlp := 2 * float64(v.Hidden()) * dim
	if v.SwiGLU {
		mlp *= 1.5
	}
	products := n*3*float64(v.PatchSize*v.PatchSize)*dim + float64(v.Depth)*(tokens*(4*dim*dim+mlp)+2*tokens*tokens*dim)
	switch {
	case v.Prototypes > 0 && v.Filter == ResidualBlock:
		products += n * 2 * dim * float64(v.blockWidth())
	case v.Prototypes > 0: // Queries, scores and values of the filter, and the layer after it. The prototypes' own projections are the same for all images.
		const places = prototypeSize * prototypeSize
		products += n * (dim*dim + float64(v.Prototypes)*dim*(places+1) + 2*dim*dim)
	}
	return 2 * products
}
