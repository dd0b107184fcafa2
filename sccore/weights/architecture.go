package weights

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/settings"
)

// evidence is what a file says about a transformer.
type evidence struct {
	prefix          string            // Of its keys.
	names           Naming            // Official stands for timm's too.
	all             map[string]source // Its tensors under our names.
	unused, ignored []string          // The keys that are no weights of it, and those that were left out.
	facts           modelFacts        // Of a config.json.
	metadata        map[string]string // Of a .safetensors file.
}

// Metadata of the files that this project exports.
const (
	architectureKey = "architecture" // A name that encoder.ViTByName knows.
	positionsKey    = "positions"
)

// identify returns the transformer in a file. Most follows from the names and shapes of tensors. The rest, the number of heads and a few numbers, follows
// from given, where it says something, from the file's metadata or its config.json, or is as in the published transformers of its kind.
func (e evidence) identify(given encoder.ViT) (_ encoder.ViT, err error) {
	defer try.Handle(&err)
	none := encoder.ViT{}
	class, patch := e.all["cls_token"].shape, e.all["patch_embed.proj.weight"].shape
	v := encoder.ViT{}
	for e.all[fmt.Sprintf("blocks.%d.norm1.weight", v.Depth)].keys != nil {
		v.Depth++
	}
	switch {
	case len(patch) == 4:
		v.PatchSize = patch[3]
	case len(patch) == 2:
		v.PatchSize = root(patch[1] / 3)
	}
	if len(class) == 0 || v.PatchSize == 0 || v.Depth == 0 {
		return none, errors.New("contains no vision transformer: its patches or blocks are of another kind")
	}
	v.Dim = class[len(class)-1]
	if registers, ok := e.all["reg_token"]; ok {
		if len(registers.shape) != 3 {
			return none, fmt.Errorf("key %s: has shape %v, the transformer wants [1 registers %d]", registers.key(), registers.shape, v.Dim)
		}
		v.Registers = registers.shape[1]
	}
	if positions, ok := e.all["pos_embed"]; ok {
		if len(positions.shape) != 3 {
			return none, fmt.Errorf("key %s: has shape %v, the transformer wants [1 1+grid² %d]", positions.key(), positions.shape, v.Dim)
		}
		v.GridSize = root(positions.shape[1] - lo.Ternary(v.Registers > 0, 0, 1))
	}
	_, v.LayerScale = e.all["blocks.0.ls1.gamma"]
	_, v.QKNorm = e.all["blocks.0.attn.q_norm.weight"]
	fc1, fc2 := e.all["blocks.0.mlp.fc1.weight"].shape, e.all["blocks.0.mlp.fc2.weight"].shape
	if len(fc1) == 2 && len(fc2) == 2 {
		if v.SwiGLU = fc1[0] == 2*fc2[1]; v.SwiGLU || fc2[1] != 4*v.Dim {
			v.MLPWidth = fc2[1]
		}
	}
	if _, ok := e.all["blocks.0.attn.q_bias"]; ok {
		v.Bias = encoder.QVBias
	} else if _, ok := e.all["blocks.0.attn.qkv.bias"]; !ok {
		v.Bias = encoder.NoBias
	}
	try.E(e.findFilter(&v))
	try.E(e.facts.check(v))
	if v.NumHeads = cmp.Or(given.NumHeads, e.heads(v)); v.NumHeads == 0 {
		return none, Undecided{fmt.Errorf("the number of heads of its transformer of width %d with %d blocks and patches of %d is not in the file: "+
			"put its config.json beside it", v.Dim, v.Depth, v.PatchSize), "heads", ""}
	}
	try.E(e.rotate(&v))
	if v.Epsilon = cmp.Or(given.Epsilon, e.epsilon(v)); v.Epsilon == 1e-6 {
		v.Epsilon = 0
	}
	v.Positions = cmp.Or(given.Positions, e.positions(v))
	if v.Prototypes == 0 && given.Prototypes > 0 { // The file does not say where.
		v.BlocksAfterFilter = given.BlocksAfterFilter
	}
	v.Prototypes = cmp.Or(given.Prototypes, v.Prototypes)
	v = v.Named()
	try.E(settings.Check(v))
	if usual, err := encoder.ViTByName(v.Name); err == nil {
		v.InitStd = usual.InitStd
	}
	return v, nil
}

// findFilter sets how many prototypes there are, and in which block, if the file has an Object-Aware Filter.
func (e evidence) findFilter(v *encoder.ViT) error {
	found := "" // The key of the prototypes.
	for block := range v.Depth {
		prototypes, fc1 := e.all[fmt.Sprintf("blocks.%d.filter.prototypes", block)], e.all[fmt.Sprintf("blocks.%d.filter.fc1.weight", block)]
		if len(prototypes.shape) == 4 {
			if found != "" {
				return fmt.Errorf("keys %s and %s: more than one block has an Object-Aware Filter", found, prototypes.key())
			}
			found, v.Prototypes, v.BlocksAfterFilter = prototypes.key(), prototypes.shape[2], v.Depth-1-block
		}
		if len(fc1.shape) == 2 {
			v.Filter, v.Prototypes, v.BlocksAfterFilter = encoder.ResidualBlock, v.PrototypesOf(fc1.shape[0]), v.Depth-1-block
		}
	}
	return nil
}

// exported is the transformer that the metadata of a file names, if it fits the shapes.
func (e evidence) exported(v encoder.ViT) (named encoder.ViT, ok bool) {
	named, err := encoder.ViTByName(e.metadata[architectureKey])
	return named, err == nil && named.Dim == v.Dim && named.Depth == v.Depth
}

// headsOf are the heads of the published transformers of a width. Most have a width of 64.
var headsOf = map[int]int{192: 3, 384: 6, 512: 8, 768: 12, 1024: 16, 1152: 16, 1280: 16, 1408: 16, 1536: 24, 1664: 16, 4096: 32}

// statedHeads is the number of heads that the file or its config.json states, 0 if neither does.
func (e evidence) statedHeads(v encoder.ViT) int {
	named, ok := e.exported(v)
	switch periods := e.all[periodsName].shape; {
	case ok:
		return named.NumHeads
	case e.facts.heads() > 0:
		return e.facts.heads()
	case len(periods) == 1 && periods[0] > 0:
		return v.Dim / (4 * periods[0])
	case v.Dim == 384 && (strings.Contains(e.prefix, "base_encoder.") || strings.Contains(e.prefix, "momentum_encoder.")):
		return 12 // MoCo v3's.
	}
	return 0
}

// heads is the number of heads, 0 if nothing says it.
func (e evidence) heads(v encoder.ViT) int {
	tiny, err := encoder.ViTByName("vit-tiny")
	switch stated := e.statedHeads(v); {
	case stated > 0:
		return stated
	case err == nil && v.Dim == tiny.Dim && v.Depth == tiny.Depth && v.PatchSize == tiny.PatchSize:
		return tiny.NumHeads
	case v.Dim == 1280 && v.GridSize == 0:
		return 20 // DINOv3's.
	case v.Dim < 768 && e.fixedPositions():
		return 0 // MoCo v3 has heads of 32, MAE's followers of 64.
	}
	return headsOf[v.Dim]
}

// fixedPositions reports whether the position embedding that a file has for [CLS] is zero: it is fixed there, made of sines, as in MoCo v3 and MAE, and not learnt.
func (e evidence) fixedPositions() bool {
	positions, ok := e.all["pos_embed"]
	if !ok || e.names != Official || positions.how != "" || positions.shape[0] != 1 {
		return false
	}
	class, err := positions.cut(1, 0, 1, "").floats()
	return err == nil && !slices.ContainsFunc(class, func(x float32) bool { return x != 0 })
}

// rotate sets the RoPE of a transformer without stored positions: with registers and LayerScale it is DINOv3's.
func (e evidence) rotate(v *encoder.ViT) (err error) {
	defer try.Handle(&err)
	periods, hasPeriods := e.all[periodsName]
	named, ok := e.exported(*v)
	switch {
	case v.GridSize > 0 && !hasPeriods && strings.Contains(e.facts.Architecture, "rope"): // timm does not store their periods.
		return fmt.Errorf("%s: the rotary positions of %.80q are not known", e.facts.file, e.facts.Architecture)
	case v.GridSize > 0 && !hasPeriods:
		if v.Bias == encoder.QVBias {
			return fmt.Errorf("key %s: an EVA or BEiT transformer with stored positions, which is not known", e.all["blocks.0.attn.q_bias"].key())
		}
		return nil
	case !hasPeriods && (v.Registers == 0 || !v.LayerScale):
		return errors.New("missing key pos_embed, which the transformer needs")
	case !hasPeriods && e.facts.Architecture != "" && !strings.Contains(e.facts.Architecture, "dinov3") && !strings.Contains(e.facts.Architecture, "lingbot"):
		return fmt.Errorf("%s: the rotary positions of %.80q are not known", e.facts.file, e.facts.Architecture)
	case !hasPeriods && ok && named.RoPE.Base > 0:
		v.RoPE = named.RoPE
		return nil
	case !hasPeriods:
		v.RoPE.Base = cmp.Or(e.facts.base(), 100)
		return nil
	}
	values := try.E1(readPeriods(periods, v.Dim/v.NumHeads))
	// The base follows from the last period, Base^((n−1)/n), which may be rounded.
	n := float64(len(values))
	bases := []float64{100, math.Round(math.Pow(float64(values[len(values)-1]), n/max(n-1, 1)))}
	for _, base := range bases {
		for _, rounded := range []bool{false, true} {
			if v.RoPE = (encoder.RoPE{Base: base, BF16: rounded}); base > 0 && fits(values, v.RoPE) {
				return nil
			}
		}
	}
	return fmt.Errorf("key %s: the periods %.80v are not those of a base", periods.key(), fmt.Sprint(values))
}

// readPeriods returns the periods in a file, one for each four entries of a head.
func readPeriods(periods source, head int) ([]float32, error) {
	if shape := periods.shape; len(shape) != 1 || shape[0] < 1 || shape[0] != head/4 {
		return nil, fmt.Errorf("key %s: has shape %v, the transformer wants [%d]", periods.key(), shape, head/4)
	}
	values, err := periods.finite()
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", periods.key(), err)
	}
	return values, nil
}

// fits reports whether periods are those of r, but for rounding in the last bits of float32.
func fits(periods []float32, r encoder.RoPE) bool {
	return slices.EqualFunc(periods, r.Periods(4*len(periods)), func(x, want float32) bool { return math.Abs(float64(x/want-1)) <= 1e-6 })
}

// epsilon is what normalisation adds to the variance.
func (e evidence) epsilon(v encoder.ViT) float64 {
	named, ok := e.exported(v)
	switch {
	case ok:
		return named.Epsilon
	case e.facts.Epsilon != nil:
		return *e.facts.Epsilon
	case v.RoPE.Base > 0 && e.facts.ModelArgs["norm_layer"] == nil: // timm's classes by name add 1e-6.
		return 1e-5
	case e.names == Transformers && !v.LayerScale:
		return 1e-12
	}
	return 1e-6
}

// positions is the makers' method of resizing position embeddings. DINO's names are also timm's, and without a config.json they count as DINO's.
func (e evidence) positions(v encoder.ViT) encoder.Positions {
	has := func(part string) bool {
		return slices.ContainsFunc(e.unused, func(key string) bool { return strings.Contains(key, part) })
	}
	switch exported := encoder.Positions(e.metadata[positionsKey]); {
	case v.GridSize == 0:
		return encoder.DINOPositions // This transformer has no grid of positions to resize.
	case slices.Contains([]encoder.Positions{encoder.DINOPositions, encoder.TimmPositions, encoder.TransformersPositions}, exported):
		return exported
	case v.Registers > 0, e.facts.Architecture != "":
		return encoder.TimmPositions
	case e.names == Transformers, has("decoder_embed."): // MAE's.
		return encoder.TransformersPositions
	case v.LayerScale && !has("mask_token"): // DINOv2's own files have one.
		return encoder.TimmPositions
	}
	return encoder.DINOPositions
}

// normalize brings the parts that families store in different ways to ours:
//
//   - the bias of queries, keys and values with a mask, DINOv3's, to the biases that count;
//   - the position embeddings of [CLS] and of registers to a part of these tokens, and that of [CLS] without registers to zeros where there is none.
func normalize(all map[string]source) error {
	for name, mask := range all {
		if block, isMask := strings.CutSuffix(name, maskSuffix); isMask {
			delete(all, name)
			if err := unmask(all, block+".attn.", mask); err != nil {
				return fmt.Errorf("key %s: %w", mask.key(), err)
			}
		}
	}
	positions, class := all["pos_embed"], all["cls_token"]
	shape := positions.shape
	if len(class.shape) != 3 || len(shape) != 3 {
		return nil
	}
	if _, err := entries(shape); err != nil {
		return fmt.Errorf("key %s: %w", positions.key(), err)
	}
	tokens, registers := all["reg_token"]
	count := lo.Ternary(len(tokens.shape) == 3, lo.NthOr(tokens.shape, 1, 0), 0)
	switch withClass, without := isSquare(shape[1]-1), isSquare(shape[1]); {
	case registers && withClass && shape[0] == 1 && slices.Equal(class.shape, []int{1, 1, shape[2]}):
		all["cls_token"] = class.plus(positions.cut(1, 0, 1, ""), "with the position embedding of [CLS]")
		all["pos_embed"] = positions.cut(1, 1, shape[1], "without that of [CLS]")
	case registers && !without && isSquare(shape[1]-1-count) && shape[0] == 1 && slices.Equal(class.shape, []int{1, 1, shape[2]}) && slices.Equal(tokens.shape, []int{1, count, shape[2]}):
		all["cls_token"] = class.plus(positions.cut(1, 0, 1, ""), "with the position embedding of [CLS]")
		all["reg_token"] = tokens.plus(positions.cut(1, 1, 1+count, ""), "with the position embeddings of registers")
		all["pos_embed"] = positions.cut(1, 1+count, shape[1], "without those of [CLS] and registers")
	case !registers && !withClass && without && shape[0] == 1:
		all["pos_embed"] = source{[]int{1, shape[1] + 1, shape[2]}, func() ([]float32, error) {
			values, err := positions.floats()
			return append(make([]float32, shape[2]), values...), err
		}, positions.keys, "with zeros for [CLS]"}
	}
	return nil
}

func isSquare(n int) bool { return n > 0 && root(n)*root(n) == n }

// root is the square root of a number, rounded.
func root(n int) int { return int(math.Round(math.Sqrt(float64(max(n, 0))))) }

// unmask replaces a bias by its parts that a mask leaves. Published masks leave out the keys; where the mask holds NaN, its code's initial value, they
// are meant too.
func unmask(all map[string]source, attention string, mask source) (err error) {
	defer try.Handle(&err)
	bias := all[attention+"qkv.bias"]
	if len(bias.shape) != 1 || !slices.Equal(bias.shape, mask.shape) || bias.shape[0]%3 != 0 {
		return fmt.Errorf("has shape %v and fits no bias", mask.shape)
	}
	try.E1(entries(mask.shape))
	values := try.E1(mask.floats())
	dim := len(values) / 3
	undefined := slices.ContainsFunc(values, func(x float32) bool { return x != x })
	for i, x := range values {
		if want := lo.Ternary[float32](i/dim == 1, 0, 1); x != want && !undefined {
			return fmt.Errorf("entry %d is %v, want 0 for keys and 1 for queries and values", i, x)
		}
	}
	delete(all, attention+"qkv.bias")
	bias.keys = slices.Concat(bias.keys, mask.keys)
	all[attention+"q_bias"], all[attention+"v_bias"] = bias.cut(0, 0, dim, "that of queries"), bias.cut(0, 2*dim, 3*dim, "that of values")
	return nil
}
