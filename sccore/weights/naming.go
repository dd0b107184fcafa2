package weights

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/semcon/semcon/sccore/encoder"
)

// Naming says whose names the weights in a file have.
type Naming string

// The namings.
const (
	Official     Naming = "official"     // The code of DINO, DINOv2 and DINOv3.
	Timm         Naming = "timm"         // timm's VisionTransformer and, for RoPE, Eva.
	Transformers Naming = "transformers" // Hugging Face transformers, as on its hub.
)

// Check returns an error that lists the namings unless n is one of them.
func (n Naming) Check() error {
	if n != Official && n != Timm && n != Transformers {
		return fmt.Errorf("naming %q: want %s, %s or %s", n, Official, Timm, Transformers)
	}
	return nil
}

// onlyOfficial matches names that the official code has and timm does not.
var onlyOfficial = regexp.MustCompile(`^(?:register_tokens|storage_tokens|mask_token|masked_embed|rope_embed\.periods|blocks\..*\.(?:mlp\.w(?:12|[123])\..*|attn\.qkv\.bias_mask))$`)

// NamingOf returns whose names the transformer in a file has, of which [ReadViT] reads the branch. Names that timm shares with the official code, as those of
// DINO's first transformers, count as timm's.
func NamingOf(path, branch string, ignore ...string) (n Naming, err error) {
	err = open(path, func(file *sources, facts modelFacts) error {
		found, err := examine(file, facts, branch, ignore)
		if err != nil {
			return err
		}
		n = Timm
		if found.names == transformersNames {
			n = Transformers
		}
		for key := range file.tensors {
			if name, ok := strings.CutPrefix(key, found.prefix); ok && n == Timm && onlyOfficial.MatchString(name) {
				n = Official
			}
		}
		return nil
	})
	return n, err
}

// Fits returns an error that says why the library of that naming cannot compute what v computes, or nil if it can.
func (n Naming) Fits(v encoder.ViT) error {
	rotated, timm := v.RoPE.Base > 0, n == Timm
	refuse := func(what string) error {
		return fmt.Errorf("%s has no %s: the weights cannot have its names", n.code(v), what)
	}
	switch {
	case v.Prototypes > 0 && !timm:
		return refuse("Object-Aware Filter")
	case v.QKNorm && !timm:
		return refuse("normalisation of queries and keys")
	case rotated && v.GridSize > 0:
		return refuse("stored positions beside RoPE")
	case rotated && timm && v.Bias == encoder.QKVBias:
		return refuse("bias of keys")
	case v.RoPE.BF16 && n != Official:
		return fmt.Errorf("%s does not round the periods of RoPE to bfloat16, which moves features by about 0.01: --ignore '*rope_embed.periods' reads them unrounded", n.code(v))
	}
	if n == Transformers && kindOf(v) != "vit" && kindOf(v) != "dinov3_vit" {
		if _, err := mlpRatio(v); err != nil {
			return err
		}
	}
	return nil
}

// code names the class or the code that has the names of v under this naming.
func (n Naming) code(v encoder.ViT) string {
	switch {
	case n == Transformers:
		return "the " + kindOf(v) + " of transformers"
	case n == Timm && v.RoPE.Base > 0:
		return "timm's Eva"
	case n == Timm:
		return "timm's VisionTransformer"
	}
	return fmt.Sprintf("the official code of DINO, version %d,", generation(v))
}

// generation is the version of DINO whose code has the parts of v: 1, 2 or 3.
func generation(v encoder.ViT) int {
	switch {
	case v.RoPE.Base > 0:
		return 3
	case v.Registers > 0 || v.LayerScale || v.SwiGLU:
		return 2
	}
	return 1
}

// kindOf is the model_type of transformers that has the parts of v.
func kindOf(v encoder.ViT) string {
	switch {
	case generation(v) == 3:
		return "dinov3_vit"
	case generation(v) == 1:
		return "vit"
	case v.Registers > 0:
		return "dinov2_with_registers"
	}
	return "dinov2"
}

// hidden is the width of the hidden layer of the MLP.
func hidden(v encoder.ViT) int { return cmp.Or(v.MLPWidth, 4*v.Dim) }

// mlpRatio is the mlp_ratio of transformers' DINOv2, a whole number.
func mlpRatio(v encoder.ViT) (int, error) {
	for ratio := 1; ratio <= 64; ratio++ {
		width := ratio * v.Dim
		if v.SwiGLU {
			width = (width*2/3 + 7) / 8 * 8
		}
		if width == hidden(v) {
			return ratio, nil
		}
	}
	return 0, fmt.Errorf("the %s of transformers has no MLP of width %d for tokens of width %d", kindOf(v), hidden(v), v.Dim)
}
