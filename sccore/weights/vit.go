// Package weights reads and writes the weights of vision transformers in the files of other projects: PyTorch, timm and transformers. It treats every file as
// hostile: nothing in a file is executed, and memory is bounded by the size of the file.
//
// Add a format as a file of its own that returns tensors by name, and a case in the fuzz tests.
package weights

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/settings"
)

// Import is the result of [ReadViT]: a transformer's weights, and a report on every key of the file.
type Import struct {
	File   string // The file that it was read from.
	ViT    encoder.ViT
	Prefix string // Prefix of the transformer's keys in the file, such as "teacher.backbone.".

	Matched      []string // Keys that were taken unchanged.
	Reshaped     []string // Keys whose values were rearranged.
	Interpolated []string // Position embeddings that were resized from another grid.
	Missing      []string // Weights of the Object-Aware Filter that the file does not have. They keep their initial values.
	Unused       []string // Keys that do not belong to the transformer: heads, the other branch, the state of an optimizer.
	Ignored      []string // Keys that were left out, because they match one of the patterns in Ignore.
	Ignore       []string

	// Head holds the projection head in the file, the keys below "head.", with its own names (mlp.0.weight) and PyTorch's layout. The counters
	// of its batch normalisation are left out.
	Head map[string]*tensors.Tensor

	values map[string]*tensors.Tensor // By path, in our layout.
}

// ReadViT reads a vision transformer from the official files of its makers (.pth, in both formats of PyTorch, without running code in them) and from
// .safetensors files of timm and transformers, or the model.safetensors.index.json of one in several files. It knows the transformers of DINO, iBOT, Mugs,
// Leopart, MAE, DeiT, DINOv2 and DINOv3, and what timm and transformers have that differs from them only in [encoder.ViT]'s fields. Keys may be in nested
// dictionaries and have any prefix, and the parts that wrappers of modules add, such as _orig_mod, do not count. If a file holds several transformers, branch
// selects one: "teacher", "student", or a part of its prefix. If branch is empty, it is the one that the makers evaluate: the teacher, timm's moving average
// (state_dict_ema), or what is not the momentum or target branch. Training code writes these prefixes:
//
//	DINO          teacher.backbone. and student.module.backbone., with heads under head.; none in a published backbone
//	iBOT          teacher. or teacher.module., otherwise as DINO, with a masked_embed and a last_layer2; state_dict. in a published backbone
//	Mugs          as DINO or teacher.module.backbone., with relation_blocks and heads of other names, which are unused
//	Leopart       state_dict.teacher., and state_dict.model. for the student, from Lightning; model. in a published file
//	MAE, DeiT     model.
//	MoCo v3       state_dict.module.base_encoder. and state_dict.module.momentum_encoder.
//	solo-learn    state_dict.backbone. and state_dict.momentum_backbone.
//	DINOv2, DINOv3, timm  none
//	transformers  none, vit., dinov2. or dinov2_with_registers.
//
// want is the expected transformer. If its Dim is 0, the transformer is identified: by the names and shapes of tensors, and by a config.json of timm or
// transformers beside the file for the number of heads, the epsilon, the resizing of positions and the base of RoPE. Without one they are as the makers chose
// them, and the number of heads is the usual one for the width. NumHeads, Epsilon, Positions and Prototypes of want then count where they are not 0, and
// BlocksAfterFilter if the file has no filter: else the file says in which block it is. The grid of positions is kept as it is in the file, and resized to
// GridSize if want has a Dim.
//
// A tensor must have the shape that the transformer wants. Only these are rearranged: a patch embedding by a linear layer, [Dim, 3·P·P]; queries, keys and
// values, or the two matrices of SwiGLU, in separate tensors; and what [CLS] adds to its position embedding, see [encoder.ViT].Registers.
//
// A key that is not understood is an error. Heads, the other branch, the state of an optimizer, decoders and mask tokens are known and unused. Keys that
// match a pattern of ignore, with * for any text, are left out before anything else.
//
// The error is one line that names the file: another architecture, a missing key, values that are not finite, or a damaged or hostile file.
// Time and memory are proportional to the file and the transformer, whatever sizes the file claims.
func ReadViT(path string, want encoder.ViT, branch string, ignore ...string) (im *Import, err error) {
	err = open(path, func(file *sources, facts modelFacts) error {
		if im, err = importViT(file, facts, want, branch, ignore); err == nil {
			im.File = path
		}
		return err
	})
	return im, err
}

// Identify returns the transformer that [ReadViT] would identify, without reading its weights.
func Identify(path string, ignore ...string) (v encoder.ViT, err error) {
	err = open(path, func(file *sources, facts modelFacts) (err error) {
		defer try.Handle(&err)
		v, err = try.E1(examine(file, facts, "", ignore)).identify(encoder.ViT{})
		return err
	})
	return v, err
}

// open opens a file of weights and what is beside it. Errors name the file.
func open(path string, use func(file *sources, facts modelFacts) error) (err error) {
	defer try.HandleF(&err, func() {
		if !strings.Contains(err.Error(), path) {
			err = fmt.Errorf("%s: %w", path, brief(err))
		}
	})
	file := try.E1(openSources(path))
	defer file.close()
	try.E(use(file, try.E1(readFacts(path))))
	return nil
}

// maxLine bounds an error in bytes. What a file claims can be as long as the file.
const maxLine = 300

// brief cuts an error that is too long for a line.
func brief(err error) error {
	if text := err.Error(); len(text) > maxLine {
		return errors.New(strings.ToValidUTF8(text[:maxLine], "") + "…")
	}
	return err
}

// examine finds the tensors of a branch's transformer.
func examine(file *sources, facts modelFacts, branch string, ignore []string) (e evidence, err error) {
	defer try.Handle(&err)
	e = evidence{facts: facts, metadata: file.metadata}
	e.ignored = try.E1(file.leaveOut(ignore))
	keys := slices.Sorted(maps.Keys(file.tensors))
	e.prefix, e.names = try.E2(findPrefix(keys, branch))
	e.all, e.unused = try.E2(e.names.rename(file.tensors, e.prefix, keys))
	return e, normalize(e.all)
}

func importViT(file *sources, facts modelFacts, want encoder.ViT, branch string, ignore []string) (_ *Import, err error) {
	defer try.Handle(&err)
	found := try.E1(examine(file, facts, branch, ignore))
	if want.Dim == 0 {
		want = try.E1(found.identify(want))
	} else if stated := found.statedHeads(want); stated != 0 && stated != want.NumHeads {
		return nil, fmt.Errorf("its transformer has %d heads, as the file or its config.json says, and %s has %d", stated, cmp.Or(want.Name, "the wanted one"), want.NumHeads)
	}
	want.Positions = cmp.Or(want.Positions, found.positions(want))
	try.E(settings.Check(want))
	im := &Import{
		ViT: want, Prefix: found.prefix, Unused: found.unused, Ignore: ignore, Ignored: found.ignored,
		values: map[string]*tensors.Tensor{}, Head: map[string]*tensors.Tensor{},
	}
	for _, w := range want.Weights() {
		name := strings.ReplaceAll(w.Path, "/", ".")
		source, ok := found.all[name]
		switch {
		case ok:
		case w.Filter:
			im.Missing = append(im.Missing, w.Path)
			continue
		default:
			return nil, fmt.Errorf("missing key %s%s, which the transformer needs", found.prefix, name)
		}
		delete(found.all, name)
		if err := im.convert(w, source); err != nil {
			return nil, fmt.Errorf("key %s: %w", source.key(), err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found.all)) {
		source := found.all[name]
		switch {
		case strings.Contains(name, ".filter.") && want.Prototypes == 0: // Asked for without it.
			im.Unused = append(im.Unused, source.keys...)
		case name == periodsName:
			if values := try.E1(readPeriods(source, want.Dim/want.NumHeads)); want.RoPE.Base == 0 || !fits(values, want.RoPE) {
				return nil, fmt.Errorf("key %s: has other periods than the RoPE of %s", source.key(), want.Name)
			}
			im.Matched = append(im.Matched, source.keys...)
		default:
			return nil, fmt.Errorf("key %s: %s has no such weight", source.key(), cmp.Or(want.Name, "the transformer"))
		}
	}
	slices.Sort(im.Unused)
	return im, im.readHead(file.tensors)
}

// besideHead is the last part of a transformer's prefix that its head does not have.
var besideHead = regexp.MustCompile(`(^|\.)(?:backbone|encoder)\.$`)

// readHead reads the projection head beside the transformer.
func (im *Import) readHead(tensorsOf map[string]source) error {
	around := besideHead.ReplaceAllString(unwrapped(im.Prefix), "$1")
	left := maxHead
	for _, key := range im.Unused {
		name, ok := strings.CutPrefix(unwrapped(key), around+"head.")
		size, err := entries(tensorsOf[key].shape)
		if !ok || err != nil || size > left || strings.HasSuffix(name, batchCount) {
			continue
		}
		values, err := tensorsOf[key].finite()
		if err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
		left -= size
		im.Head[name] = tensors.FromFlatDataAndDimensions(values, tensorsOf[key].shape...)
	}
	return nil
}

// maxHead bounds the number of values in a head. DINO's last layer has 65536·256, the other layers 6 million.
const maxHead = 1 << 25

// batchCount is the suffix of the integer counters of batch normalisation.
const batchCount = "num_batches_tracked"

// entries returns the number of values of a shape.
func entries(shape []int) (int, error) {
	size := 1
	for _, dim := range shape {
		if dim <= 0 || size > math.MaxInt32/dim {
			return 0, fmt.Errorf("shape %v is empty or impossible", shape)
		}
		size *= dim
	}
	return size, nil
}

// convert brings a tensor of the file to the layout of a weight.
func (im *Import) convert(w encoder.Weight, source source) (err error) {
	defer try.Handle(&err)
	shape, theirs := source.shape, torchShape(w.Shape)
	size := try.E1(entries(shape))
	linear := w.Path == "patch_embed/proj/weight" && len(shape) == 2 && shape[0] == theirs[0] && size == w.Size()
	grid, special := 0, lo.Ternary(im.ViT.Registers > 0, 0, 1)
	if w.Path == "pos_embed" && len(shape) == 3 && shape[0] == 1 && shape[2] == im.ViT.Dim && isSquare(shape[1]-special) && shape[1] <= 1<<16 {
		grid = root(shape[1] - special)
	}
	if resized := grid > 0 && grid != im.ViT.GridSize; !resized && !linear && !slices.Equal(shape, theirs) {
		return fmt.Errorf("has shape %v, the transformer wants %v", shape, theirs)
	}
	values := try.E1(source.finite())
	key := source.key()
	switch {
	case grid > 0 && grid != im.ViT.GridSize:
		values = ResizePositions(values, im.ViT, special, grid)
		im.Interpolated = append(im.Interpolated, fmt.Sprintf("%s from %d×%d to %d×%d", key, grid, grid, im.ViT.GridSize, im.ViT.GridSize))
	case linear:
		im.Reshaped = append(im.Reshaped, fmt.Sprintf("%s from %v to %v", key, shape, theirs))
	case source.how != "":
		im.Reshaped = append(im.Reshaped, key+" "+source.how)
	default:
		im.Matched = append(im.Matched, key)
	}
	im.values[w.Path] = tensors.FromFlatDataAndDimensions(transposed(values, w.Shape, false), w.Shape...)
	return nil
}

// ResizePositions resizes a table of position embeddings, with the embedding of the [CLS] token first if special is 1, from size² to the transformer's grid.
func ResizePositions(values []float32, v encoder.ViT, special, size int) []float32 {
	matrix, dim := v.Positions.Matrix(size, v.GridSize), v.Dim
	out := append(make([]float32, 0, (special+v.GridSize*v.GridSize)*dim), values[:special*dim]...)
	for row := range v.GridSize {
		for column := range v.GridSize {
			for f := range dim {
				sum := 0.0
				for r, byRow := range matrix[row] {
					if byRow == 0 { // Most are 0.
						continue
					}
					for c, byColumn := range matrix[column] {
						if byColumn != 0 {
							sum += byRow * byColumn * float64(values[(special+r*size+c)*dim+f])
						}
					}
				}
				out = append(out, float32(sum))
			}
		}
	}
	return out
}

// torchShape returns the shape of a weight in PyTorch: [out, in] for [in, out], and [out, in, height, width] for [height, width, in, out]. The
// filter's prototypes, [M, 3, 3, Dim], follow the same rule.
func torchShape(ours []int) []int {
	switch len(ours) {
	case 2:
		return []int{ours[1], ours[0]}
	case 4:
		return []int{ours[3], ours[2], ours[0], ours[1]}
	}
	return ours
}

// transposed converts values from PyTorch's layout of a weight to ours, whose shape is given. If back is true, it converts them to PyTorch's.
func transposed(values []float32, ours []int, back bool) []float32 {
	var inner, outer int // PyTorch's layout is [outer, middle, inner], ours is [inner, middle, outer].
	middle := 1
	switch len(ours) {
	case 2:
		inner, outer = ours[0], ours[1]
	case 4:
		inner, middle, outer = ours[0]*ours[1], ours[2], ours[3]
	default:
		return values
	}
	out := make([]float32, len(values))
	for i := range inner {
		for m := range middle {
			for o := range outer {
				here, there := (i*middle+m)*outer+o, (o*middle+m)*inner+i
				if back {
					here, there = there, here
				}
				out[here] = values[there]
			}
		}
	}
	return out
}
