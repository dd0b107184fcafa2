package weights

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"
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

// Tensors that are no weights: the periods of RoPE, which entries of a bias count, and what only pretraining reads.
const (
	periodsName = "rope.periods"
	maskSuffix  = ".attn.qkv.bias_mask"
	maskToken   = "mask_token"
	maskedEmbed = "masked_embed" // iBOT's.
)

//go:embed names.csv
var namesFile string

// codes are names.csv, the one table of names, by naming and [Naming.code]: our name (of an [encoder.Weight], with "." for "/" and without its block) to the
// code's; "=" says that they are the same. A name that ends with a dot stands for a weight and a bias. A weight that the code has in pieces has a name for each. The MLP
// of SwiGLU is "swiglu" in place of "mlp".
//
// places are the same table read backwards. A name that is a piece for one code and a whole weight for another counts as the piece.
var codes, places = readNames()

// place is our name of a tensor in a file, and which piece of a weight it is, from 1; 0 for a whole one.
type place struct {
	ours  string
	piece int
}

func readNames() (codes map[Naming]map[string]map[string]string, places map[Naming]map[string]place) {
	rows, err := csv.NewReader(strings.NewReader(namesFile)).ReadAll()
	if err != nil {
		panic(err) // The file is part of the program.
	}
	codes = map[Naming]map[string]map[string]string{Timm: {}, Official: {}, Transformers: {}}
	places = map[Naming]map[string]place{Timm: {}, Official: {}, Transformers: {}}
	for column, head := range rows[0][1:] {
		classes, names := strings.Fields(head), map[string]string{}
		naming := Naming(classes[0])
		for _, class := range classes[1:] {
			codes[naming][class] = names
		}
		for _, row := range rows[1:] {
			ours, theirs := row[0], strings.Fields(strings.Replace(row[column+1], "=", row[0], 1))
			if len(theirs) > 0 {
				names[ours] = strings.Join(theirs, " ")
			}
			for i, part := range theirs {
				p := place{strings.Replace(ours, "swiglu.", "mlp.", 1), lo.Ternary(len(theirs) == 1, 0, i+1)}
				if p.piece >= places[naming][part].piece {
					places[naming][part] = p
				}
			}
		}
	}
	places[Official] = lo.Assign(places[Timm], places[Official])
	return codes, places
}

var (
	// block is the name of a weight in a block, by whether it is one of transformers. DINOv2's training writes blocks.CHUNK.NUMBER.
	block = map[bool]*regexp.Regexp{
		false: regexp.MustCompile(`^blocks\.(?:\d{1,4}\.)?(\d{1,4})\.(.*)$`),
		true:  regexp.MustCompile(`^(?:encoder\.|model\.)?layers?\.(\d{1,4})\.(.*)$`),
	}
	// others are known names that are no weights. In official files they are heads (also Leopart's, with prototypes, and EUPE's), the blocks of Mugs' heads, a
	// normalisation in DINOv3's training, and the decoder of MAE.
	others = map[bool]*regexp.Regexp{
		false: regexp.MustCompile(`^(head|pre_logits|projection_head|prototypes|projectors|relation_blocks|local_cls_norm|` +
			`decoder_(embed|blocks|norm|pred))\..*$|^decoder_pos_embed$`),
		true: regexp.MustCompile(`^(pooler|classifier|decoder)\..*$`),
	}
)

// translate returns our name of a transformer's tensor, and which piece of it the tensor is. Our name is empty for a known tensor that is no weight of the
// transformer. Official stands for timm's names too.
func (n Naming) translate(name string) (ours string, piece int, known bool) {
	hub, before := n == Transformers, ""
	if others[hub].MatchString(name) {
		return "", 0, true
	}
	if in := block[hub].FindStringSubmatch(name); in != nil {
		number, _ := strconv.Atoi(in[1]) // Digits, by the expression.
		before, name = fmt.Sprintf("blocks.%d.", number), in[2]
	}
	for _, kind := range []string{"", "weight", "bias"} {
		stem := strings.TrimSuffix(name, kind)
		p, known := places[n][stem]
		switch {
		case !known || stem+kind != name || strings.HasSuffix(stem, ".") != (kind != ""):
		case p.ours == maskToken || p.ours == maskedEmbed:
			return "", 0, before == ""
		default:
			return before + p.ours + kind, p.piece, true
		}
	}
	return "", 0, false
}

// rename returns the tensors of the transformer below a prefix under our names, whole, and the keys that are no weights of it. A key below the prefix
// that is not understood is an error.
func (n Naming) rename(tensors map[string]source, prefix string, sorted []string) (all map[string]source, unused []string, err error) {
	pieces := map[string]*[4]source{}
	for _, key := range sorted {
		name, inside := strings.CutPrefix(key, prefix)
		ours, piece, known := "", 0, true
		if inside {
			ours, piece, known = n.translate(unwrapped(name))
		}
		switch {
		case !known:
			return nil, nil, Undecided{fmt.Errorf("key %s is not understood", key), "ignore", key}
		case ours == "":
			unused = append(unused, key)
			continue
		case pieces[ours] == nil:
			pieces[ours] = &[4]source{}
		}
		if other := pieces[ours][piece]; other.keys != nil {
			return nil, nil, fmt.Errorf("keys %s and %s are the same weight", other.key(), key)
		}
		pieces[ours][piece] = tensors[key]
	}
	all = map[string]source{}
	for ours, of := range pieces {
		if err := n.assemble(all, ours, *of); err != nil {
			return nil, nil, err
		}
	}
	return all, unused, nil
}

// assemble adds a weight that the file has whole, of[0], or in pieces.
func (n Naming) assemble(all map[string]source, ours string, of [4]source) (err error) {
	there := func(piece int) bool { return of[piece].keys != nil }
	parts := lo.Filter(of[:], func(s source, _ int) bool { return s.keys != nil })
	block, biases := strings.CutSuffix(ours, "qkv.bias")
	want := lo.Ternary(strings.Contains(ours, ".attn.qkv."), 3, 2)
	switch {
	case len(parts) == 1 && (there(0) || there(2) && want == 2 && n == Transformers): // up_proj without gate_proj is whole.
		all[ours] = parts[0]
	case len(parts) == 2 && biases && there(1) && there(3):
		all[block+"q_bias"], all[block+"v_bias"] = of[1], of[3]
	case len(parts) == want && !there(0):
		all[ours], err = join(parts)
	default:
		err = fmt.Errorf("missing key: of %s there is only %s", ours, keysOf(parts...))
	}
	return err
}

// code is the class or the version of the code that has the parts of v, by which the table lists its names.
func (n Naming) code(v encoder.ViT) string {
	switch {
	case n == Transformers && v.RoPE.Base > 0:
		return "dinov3_vit"
	case n == Transformers && generation(v) == 1:
		return "vit"
	case n == Transformers && v.Registers > 0:
		return "dinov2_with_registers"
	case n == Transformers:
		return "dinov2"
	case n == Timm && v.RoPE.Base > 0:
		return "Eva"
	case n == Timm:
		return "VisionTransformer"
	}
	return strconv.Itoa(generation(v))
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

// Fits returns an error that says why the library of that naming cannot compute what v computes, or nil if it can.
func (n Naming) Fits(v encoder.ViT) error {
	rotated, timm, code := v.RoPE.Base > 0, n == Timm, map[Naming]string{
		Timm: "timm's " + n.code(v), Transformers: "the " + n.code(v) + " of transformers", Official: "the official code of DINO, version " + n.code(v) + ",",
	}[n]
	refuse := func(what string) error {
		return fmt.Errorf("%s has no %s: the weights cannot have its names", code, what)
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
		return fmt.Errorf("%s does not round the periods of RoPE to bfloat16, which moves features by about 0.01: "+
			"--ignore '*rope_embed.periods' reads them unrounded", code)
	case n == Transformers && generation(v) == 2:
		_, err := mlpRatio(v)
		return err
	}
	return nil
}

// NamingOf returns whose names the transformer has that [ReadViT] reads from a file without the name of a branch. Names that timm shares with the official code, as for
// DINO's first transformers, count as timm's.
func NamingOf(path string, ignore ...string) (n Naming, err error) {
	err = open(path, func(file *sources, facts modelFacts) error {
		found, err := examine(file, facts, "", ignore)
		if n = found.names; err == nil && n == Official {
			n = Timm
			for key := range file.tensors {
				name, inside := strings.CutPrefix(key, found.prefix)
				if _, _, known := Timm.translate(unwrapped(name)); inside && !known {
					n = Official
				}
			}
		}
		return err
	})
	return n, err
}

// wrapper is a part of a key that training code adds: DataParallel, DeepSpeed, torch.compile, FSDP and activation checkpointing wrap modules anywhere.
const wrapper = `(?:_?module|_orig_mod|_checkpoint_wrapped_module|_fsdp_wrapped_module|_forward_module)\.`

var wrappers = regexp.MustCompile(`(^|\.)` + wrapper + `(?:` + wrapper + `)*`)

// unwrapped is a key without the parts of wrappers.
func unwrapped(key string) string { return wrappers.ReplaceAllString(key, "$1") }

// anchor is the key that identifies a transformer, after its prefix. In transformers it is one of the embeddings.
var anchor = regexp.MustCompile(`^((?:.*?\.)??)(embeddings\.(?:` + wrapper + `)*)?cls_token$`)

// findPrefix returns the prefix of the keys of the branch's transformer, and how they are named. Official stands for timm's names too.
func findPrefix(keys []string, branch string) (prefix string, n Naming, err error) {
	var prefixes []string
	named := map[string]Naming{}
	for _, key := range keys {
		if found := anchor.FindStringSubmatch(key); found != nil {
			prefixes, named[found[1]] = append(prefixes, found[1]), lo.Ternary(found[2] == "", Official, Transformers)
		}
	}
	slices.Sort(prefixes)
	switch {
	case len(keys) == 0:
		return "", "", errors.New("contains no vision transformer: there are no tensors in it")
	case len(prefixes) == 0:
		return "", "", fmt.Errorf("contains no vision transformer: none of its %d keys ends with cls_token (%.80s); CLIP, SigLIP and others without this key are not read",
			len(keys), strings.Join(keys[:min(3, len(keys))], ", "))
	}
	prefix, err = choosePrefix(prefixes, branch)
	return prefix, named[prefix], err
}

// Undecided is the error of a file that can be read if the caller of [ReadViT] decides something.
type Undecided struct {
	error
	Argument string // What decides: "branch", "ignore", or "heads" of the wanted transformer.
	Key      string // Of the file, for "ignore".
}

// choosePrefix returns the prefix of a branch, which is named by the whole prefix, by a part of it between dots or by a word of a part. Without a branch it
// is the one that the makers evaluate: the teacher; the moving average where timm keeps one beside the weights; else what is not the branch that follows
// another one, as in MoCo, BYOL and solo-learn. MSN and I-JEPA evaluate the follower, so there the caller decides.
func choosePrefix(prefixes []string, branch string) (string, error) {
	named := func(names ...string) (whole, word, others []string) {
		for _, prefix := range prefixes {
			switch around := strings.Trim(prefix, "."); {
			case lo.Some(names, append(strings.Split(around, "."), around)):
				whole = append(whole, prefix)
			case lo.Some(names, strings.FieldsFunc(around, func(r rune) bool { return r == '.' || r == '_' })):
				word = append(word, prefix)
			default:
				others = append(others, prefix)
			}
		}
		return whole, word, others
	}
	branch = strings.Trim(branch, ".")
	whole, word, _ := named(cmp.Or(branch, "teacher"))
	found := lo.CoalesceSliceOrEmpty(whole, word)
	switch {
	case branch == "" && len(found) == 0:
		ema, averages, _ := named("ema")
		_, _, leaders := named("momentum", "target", "k")
		if lo.SomeBy(leaders, func(prefix string) bool {
			before, after, ok := strings.Cut(prefix, "encoder.")
			return ok && slices.Contains(prefixes, before+"target_encoder."+after)
		}) {
			leaders = nil
		}
		found = lo.CoalesceSliceOrEmpty(ema, averages, leaders, prefixes)
	case branch == "student" && len(found) == 0: // Leopart calls its student "model".
		if whole, word, others := named("teacher"); len(whole)+len(word) > 0 {
			found = others
		}
	}
	shown := prefixes[:min(4, len(prefixes))]
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && cmp.Or(prefixes...) == "":
		return "", fmt.Errorf("contains no branch %.50q: it has no named branches", branch)
	case len(found) == 0:
		return "", Undecided{fmt.Errorf("contains no branch %.50q, only %.50q", branch, shown), "branch", ""}
	}
	return "", Undecided{fmt.Errorf("contains %d transformers: %.50q", len(prefixes), shown), "branch", ""}
}
