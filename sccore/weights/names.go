package weights

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// naming is how a file names the weights of a transformer.
type naming string

const (
	officialNames     naming = "official" // Those of DINO's code and its successors, and of timm, which mostly keeps them.
	transformersNames naming = "transformers"
)

// rule translates names to ours, which are those of timm's VisionTransformer: Weight.Path with "." for "/".
type rule struct {
	theirs *regexp.Regexp
	ours   string // With $1 for the first group; empty for what is known and no weight of the transformer.
	piece  int    // From 1, for a weight that the file has in pieces; 0 for a whole one.
}

// is returns a rule. In theirs, a dot is a dot and PARAM a weight or bias.
func is(theirs, ours string, piece int) rule {
	expression := strings.NewReplacer(".", `\.`, "PARAM", "(weight|bias)", "ANY", ".*").Replace(theirs)
	return rule{regexp.MustCompile("^(?:" + expression + ")$"), ours, piece}
}

// Tensors that are read but are no weights: the periods of RoPE, and which entries of a bias count.
const (
	periodsName = "rope.periods"
	maskSuffix  = ".attn.qkv.bias_mask"
)

var (
	outerRules = map[naming][]rule{
		officialNames: {
			is("(cls_token|pos_embed)", "$1", 0),
			is("patch_embed.proj.PARAM", "patch_embed.proj.$1", 0),
			is("norm.PARAM", "norm.$1", 0),
			is("reg_token|register_tokens|storage_tokens", "reg_token", 0),
			is("rope_embed.periods", periodsName, 0),
			is("mask_token|masked_embed", "", 0), // DINOv2, DINOv3, MAE; iBOT.
			// Heads, those of Leopart with prototypes and those of EUPE; the blocks of Mugs' heads; a normalisation in DINOv3's training.
			is("(head|pre_logits|projection_head|prototypes|projectors|relation_blocks|local_cls_norm).ANY", "", 0),
			is("decoder_(pos_embed|(embed|blocks|norm|pred).ANY)", "", 0), // MAE.
		},
		transformersNames: {
			is("embeddings.cls_token", "cls_token", 0),
			is("embeddings.position_embeddings", "pos_embed", 0),
			is("embeddings.patch_embeddings.(?:projection.)?PARAM", "patch_embed.proj.$1", 0),
			is("embeddings.register_tokens", "reg_token", 0),
			is("(?:layernorm|norm).PARAM", "norm.$1", 0),
			is("embeddings.mask_token|(pooler|classifier|decoder).ANY", "", 0),
		},
	}
	// blockRules are of what follows the number of the block.
	blockRules = map[naming][]rule{
		officialNames: {
			is("((?:norm1|norm2|attn.qkv|attn.proj|attn.q_norm|attn.k_norm|mlp.fc1|mlp.fc2).(?:weight|bias))", "$1", 0),
			is("(filter.(?:prototypes|(?:norm|q|k|v|proj).(?:weight|bias)))", "$1", 0),
			is("(attn.(?:q_bias|v_bias|qkv.bias_mask))", "$1", 0),
			is("ls1.gamma|gamma_1", "ls1.gamma", 0),
			is("ls2.gamma|gamma_2", "ls2.gamma", 0),
			is("mlp.w12.PARAM", "mlp.fc1.$1", 0),
			is("mlp.(?:w1|fc1_g).PARAM", "mlp.fc1.$1", 1),
			is("mlp.(?:w2|fc1_x).PARAM", "mlp.fc1.$1", 2),
			is("mlp.w3.PARAM", "mlp.fc2.$1", 0),
		},
		transformersNames: {
			is("(?:layernorm_before|norm1).PARAM", "norm1.$1", 0),
			is("(?:layernorm_after|norm2).PARAM", "norm2.$1", 0),
			is("attention.(?:attention.query|q_proj).PARAM", "attn.qkv.$1", 1),
			is("attention.(?:attention.key|k_proj).PARAM", "attn.qkv.$1", 2),
			is("attention.(?:attention.value|v_proj).PARAM", "attn.qkv.$1", 3),
			is("attention.(?:output.dense|o_proj).PARAM", "attn.proj.$1", 0),
			is("layer_scale1.lambda1", "ls1.gamma", 0),
			is("layer_scale2.lambda1", "ls2.gamma", 0),
			is("(?:intermediate.dense|mlp.fc1|mlp.weights_in).PARAM", "mlp.fc1.$1", 0),
			is("(?:output.dense|mlp.fc2|mlp.weights_out|mlp.down_proj).PARAM", "mlp.fc2.$1", 0),
			is("mlp.gate_proj.PARAM", "mlp.fc1.$1", 1),
			is("mlp.up_proj.PARAM", "mlp.fc1.$1", 2),
		},
	}
	// DINOv2's training writes blocks.CHUNK.NUMBER.
	blockNumber = map[naming]*regexp.Regexp{
		officialNames:     regexp.MustCompile(`^blocks\.(?:\d{1,4}\.)?(\d{1,4})\.(.*)$`),
		transformersNames: regexp.MustCompile(`^(?:encoder\.|model\.)?layer\.(\d{1,4})\.(.*)$`),
	}
)

// translate returns our name of a transformer's tensor, and which piece of it the tensor is. Our name is empty for a known tensor that is no weight of
// the transformer.
func (n naming) translate(name string) (ours string, piece int, known bool) {
	rules, before := outerRules[n], ""
	if block := blockNumber[n].FindStringSubmatch(name); block != nil {
		number, _ := strconv.Atoi(block[1]) // Digits, by the expression.
		rules, before, name = blockRules[n], fmt.Sprintf("blocks.%d.", number), block[2]
	}
	for _, r := range rules {
		if found := r.theirs.FindStringSubmatchIndex(name); found != nil {
			if r.ours == "" {
				return "", 0, true
			}
			return before + string(r.theirs.ExpandString(nil, r.ours, name, found)), r.piece, true
		}
	}
	return "", 0, false
}

// renamed is a tensor of the transformer under our name.
type renamed struct {
	tensorSource
	keys []string // In the file.
	how  string   // What was done to it, if something was.
}

// key names the tensor in messages.
func (r renamed) key() string { return strings.Join(r.keys, ", ") }

// rename returns the tensors of the transformer below a prefix under our names, whole, and the keys that are no weights of it. A key below the prefix
// that is not understood is an error.
func rename(sources map[string]tensorSource, prefix string, n naming, sorted []string) (all map[string]renamed, unused []string, err error) {
	pieces := map[string]*[4]string{}
	for _, key := range sorted {
		name, inside := strings.CutPrefix(key, prefix)
		if !inside {
			unused = append(unused, key)
			continue
		}
		ours, piece, known := n.translate(name)
		switch {
		case !known:
			return nil, nil, fmt.Errorf("key %s is not understood; --ignore %s leaves it out", key, key)
		case ours == "":
			unused = append(unused, key)
			continue
		}
		if pieces[ours] == nil {
			pieces[ours] = &[4]string{}
		}
		if other := pieces[ours][piece]; other != "" {
			return nil, nil, fmt.Errorf("keys %s and %s are the same weight", other, key)
		}
		pieces[ours][piece] = key
	}
	all = map[string]renamed{}
	for ours, of := range pieces {
		if err := assemble(all, sources, ours, *of, n); err != nil {
			return nil, nil, err
		}
	}
	return all, unused, nil
}

// assemble adds a weight that the file has whole or in pieces.
func assemble(all map[string]renamed, sources map[string]tensorSource, ours string, of [4]string, n naming) error {
	var keys []string
	for _, key := range of {
		if key != "" {
			keys = append(keys, key)
		}
	}
	qkv := strings.HasSuffix(ours, "attn.qkv.weight") || strings.HasSuffix(ours, "attn.qkv.bias")
	switch want := 2; {
	case of[0] != "" && len(keys) == 1:
		all[ours] = renamed{sources[of[0]], keys, ""}
	case n == transformersNames && !qkv && len(keys) == 1 && of[2] != "": // up_proj without gate_proj.
		all[ours] = renamed{sources[of[2]], keys, ""}
	case strings.HasSuffix(ours, "attn.qkv.bias") && len(keys) == 2 && of[1] != "" && of[3] != "":
		block := strings.TrimSuffix(ours, "qkv.bias")
		all[block+"q_bias"] = renamed{sources[of[1]], []string{of[1]}, ""}
		all[block+"v_bias"] = renamed{sources[of[3]], []string{of[3]}, ""}
	default:
		if qkv {
			want = 3
		}
		if of[0] != "" || len(keys) != want {
			return fmt.Errorf("missing key: of %s there is only %s", ours, strings.Join(keys, ", "))
		}
		parts := make([]tensorSource, len(keys))
		for i, key := range keys {
			parts[i] = sources[key]
		}
		joined, err := join(parts)
		if err != nil {
			return fmt.Errorf("keys %s: %w", strings.Join(keys, ", "), err)
		}
		all[ours] = renamed{joined, keys, "joined"}
	}
	return nil
}

// derived is a tensor that is computed from others.
type derived struct {
	shape  []int
	floats func() ([]float32, error)
}

func (d derived) Shape() []int { return d.shape }

func (d derived) Floats() ([]float32, error) { return d.floats() }

// join stacks tensors along their first axis.
func join(parts []tensorSource) (tensorSource, error) {
	var shape []int
	for i, part := range parts {
		next := part.Shape()
		if _, err := entries(next); err != nil {
			return nil, err
		}
		if len(next) == 0 || i > 0 && !slices.Equal(next, parts[0].Shape()) {
			return nil, fmt.Errorf("have shapes %v and %v, want the same", parts[0].Shape(), next)
		}
		if i == 0 {
			shape = slices.Clone(next)
			shape[0] *= len(parts)
		}
	}
	return derived{shape, func() (values []float32, err error) {
		for _, part := range parts {
			floats, err := part.Floats()
			if err != nil {
				return nil, err
			}
			values = append(values, floats...)
		}
		return values, nil
	}}, nil
}

// cut returns the entries from begin to end along axis of a tensor of three axes, or of one.
func cut(source tensorSource, axis, begin, end int) tensorSource {
	shape := slices.Clone(source.Shape())
	length, inner := shape[axis], 1
	for _, dim := range shape[axis+1:] {
		inner *= dim
	}
	shape[axis] = end - begin
	return derived{shape, func() (values []float32, err error) {
		floats, err := source.Floats()
		for at := 0; at < len(floats) && err == nil; at += length * inner {
			values = append(values, floats[at+begin*inner:at+end*inner]...)
		}
		return values, err
	}}
}
