package weights

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
)

// Import is the result of [ReadViT]: a transformer's weights, and a report on every key of the file.
type Import struct {
	ViT    encoder.ViT
	Prefix string // Prefix of the transformer's keys in the file, such as "teacher.backbone.".

	Matched      []string // Keys that were taken unchanged.
	Reshaped     []string // Keys whose values were reshaped.
	Interpolated []string // Position embeddings that were resized from another grid.
	Missing      []string // Weights of the Object-Aware Filter that the file does not have. They keep their initial values.
	Unused       []string // Keys that do not belong to the transformer: heads, the other branch, the state of an optimizer.

	// Head holds the projection head in the file, the keys below "head.", with its own names (mlp.0.weight) and PyTorch's layout. The counters
	// of its batch normalisation are left out.
	Head map[string]*tensors.Tensor

	values map[string]*tensors.Tensor // By path, in our layout.
}

// ReadViT reads a vision transformer from official files of DINO, iBOT, Mugs and Leopart (.pth, in both formats of PyTorch, without running
// code in them) and from .safetensors files of timm. Keys may be in nested dictionaries and have any prefix. If a file holds several
// transformers, branch selects one: "teacher" or "student", or the teacher if branch is empty. Training code writes these prefixes:
//
//	DINO     teacher.backbone. and student.module.backbone., with heads under head.; none in a published backbone
//	iBOT     teacher. or teacher.module., otherwise as DINO, with a masked_embed and a last_layer2; state_dict. in a published backbone
//	Mugs     as DINO or teacher.module.backbone., with relation_blocks and heads of other names, which are unused
//	Leopart  state_dict.teacher., and state_dict.model. for the student, from Lightning; model. in a published file
//	timm     none
//
// want is the expected transformer. If its Name is empty, ReadViT chooses the transformer of [encoder.ViTByName] that fits the shapes. It then
// takes Positions from want or, if there are none, DINO's, and Prototypes from want or, if that is 0, from the file's filter.
//
// The error is one line that names the file: another architecture, a missing key, values that are not finite, or a damaged or hostile file.
// Time and memory are proportional to the file and the transformer, whatever sizes the file claims.
func ReadViT(path string, want encoder.ViT, branch string) (*Import, error) {
	sources, closeFile, err := openSources(path)
	if err == nil {
		defer closeFile()
		var im *Import
		if im, err = importViT(sources, want, branch); err == nil {
			return im, nil
		}
	}
	if !strings.Contains(err.Error(), path) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return nil, err
}

// anchor is the key that identifies a transformer.
const anchor = "cls_token"

// findPrefix returns the prefix of the keys of the branch's transformer.
func findPrefix(sources map[string]tensorSource, branch string) (string, error) {
	var prefixes []string
	for key := range sources {
		if prefix, ok := strings.CutSuffix(key, anchor); ok && (prefix == "" || strings.HasSuffix(prefix, ".")) {
			prefixes = append(prefixes, prefix)
		}
	}
	slices.Sort(prefixes)
	if len(prefixes) == 0 {
		keys := slices.Sorted(maps.Keys(sources))
		return "", fmt.Errorf("contains no vision transformer: none of its %d keys ends with %s (%.80s)", len(keys), anchor, strings.Join(keys[:min(3, len(keys))], ", "))
	}
	wanted := branch
	if wanted == "" {
		wanted = "teacher"
	}
	of := func(name string) (found, others []string) {
		for _, prefix := range prefixes {
			if slices.Contains(strings.Split(prefix, "."), name) {
				found = append(found, prefix)
			} else {
				others = append(others, prefix)
			}
		}
		return found, others
	}
	ofBranch, _ := of(wanted)
	if teachers, others := of("teacher"); wanted == "student" && len(ofBranch) == 0 && len(teachers) > 0 {
		ofBranch = others // Leopart calls its student "model".
	}
	shown := prefixes[:min(4, len(prefixes))]
	switch {
	case len(ofBranch) == 1:
		return ofBranch[0], nil
	case len(ofBranch) == 0 && branch != "":
		return "", fmt.Errorf("contains no branch %q, only %q", branch, shown)
	case len(ofBranch) == 0 && len(prefixes) == 1:
		return prefixes[0], nil
	}
	return "", fmt.Errorf("contains %d transformers, and not exactly one of the %s: %q", len(prefixes), wanted, shown)
}

// identify returns the transformer of [encoder.ViTByName] that fits the shapes in the file.
func identify(sources map[string]tensorSource, prefix string) (encoder.ViT, error) {
	class, patch := sources[prefix+anchor].Shape(), sources[prefix+"patch_embed.proj.weight"]
	depth := 0
	for sources[fmt.Sprintf("%sblocks.%d.norm1.weight", prefix, depth)] != nil {
		depth++
	}
	if patch == nil || len(patch.Shape()) != 4 || len(class) == 0 || depth == 0 {
		return encoder.ViT{}, errors.New("contains no vision transformer: its patches or blocks are of another kind")
	}
	dim, patchSize := class[len(class)-1], patch.Shape()[3]
	for _, name := range encoder.ViTNames() {
		if v, err := encoder.ViTByName(name); err == nil && v.Dim == dim && v.PatchSize == patchSize && v.Depth == depth {
			filter := sources[fmt.Sprintf("%sblocks.%d.filter.prototypes", prefix, depth-1)]
			if filter != nil && len(filter.Shape()) == 4 {
				v.Prototypes = filter.Shape()[2]
			}
			return v, nil
		}
	}
	return encoder.ViT{}, fmt.Errorf("its transformer of width %d with %d blocks and patches of %d is unknown, want one of %s",
		dim, depth, patchSize, strings.Join(encoder.ViTNames(), ", "))
}

func importViT(sources map[string]tensorSource, want encoder.ViT, branch string) (*Import, error) {
	prefix, err := findPrefix(sources, branch)
	if err != nil {
		return nil, err
	}
	if want.Name == "" && want.Dim == 0 {
		found, err := identify(sources, prefix)
		if err != nil {
			return nil, err
		}
		found.Positions = cmp.Or(want.Positions, found.Positions)
		if want.Prototypes > 0 {
			found.Prototypes = want.Prototypes
		}
		want = found
	}
	if err := want.Check(); err != nil {
		return nil, err
	}
	im := &Import{ViT: want, Prefix: prefix, values: map[string]*tensors.Tensor{}, Head: map[string]*tensors.Tensor{}}
	used := map[string]bool{}
	for _, w := range want.Weights() {
		key := prefix + strings.ReplaceAll(w.Path, "/", ".")
		source := sources[key]
		switch {
		case source != nil:
		case w.Filter:
			im.Missing = append(im.Missing, w.Path)
			continue
		default:
			return nil, fmt.Errorf("missing key %s, which the transformer needs", key)
		}
		used[key] = true
		if err := im.convert(w, key, source); err != nil {
			return nil, fmt.Errorf("key %s: %w", key, err)
		}
	}
	around := strings.TrimSuffix(strings.TrimSuffix(prefix, "backbone."), "encoder.")
	left := maxHead
	for _, key := range slices.Sorted(maps.Keys(sources)) {
		if used[key] {
			continue
		}
		im.Unused = append(im.Unused, key)
		name, ok := strings.CutPrefix(key, around+"head.")
		size, err := entries(sources[key].Shape())
		if !ok || err != nil || size > left || strings.HasSuffix(name, batchCount) {
			continue
		}
		values, err := finite(sources[key])
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", key, err)
		}
		left -= size
		im.Head[name] = tensors.FromFlatDataAndDimensions(values, sources[key].Shape()...)
	}
	return im, nil
}

// maxHead bounds the number of values in a head. DINO's last layer has 65536·256, the other layers 6 million.
const maxHead = 1 << 25

// batchCount is the suffix of the integer counters of batch normalisation.
const batchCount = "num_batches_tracked"

// finite returns the values of a tensor, or an error if one of them is not finite.
func finite(source tensorSource) ([]float32, error) {
	values, err := source.Floats()
	if err != nil {
		return nil, err
	}
	return values, CheckFinite(values)
}

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

// convert reshapes a tensor of the file to the shape and layout of a weight.
func (im *Import) convert(w encoder.Weight, key string, source tensorSource) error {
	shape := source.Shape()
	size, err := entries(shape)
	if err != nil {
		return err
	}
	theirs := torchShape(w.Shape)
	grid := w.Path == "pos_embed" && len(shape) == 3 && shape[2] == im.ViT.Dim && shape[1] != w.Shape[1]
	rows := int(math.Round(math.Sqrt(float64(max(size/im.ViT.Dim-1, 0)))))
	if grid = grid && shape[0] == 1 && rows > 0 && 1+rows*rows == shape[1] && rows <= 256; !grid && size != w.Size() {
		return fmt.Errorf("has shape %v, the transformer wants %v", shape, theirs)
	}
	values, err := finite(source)
	if err != nil {
		return err
	}
	switch {
	case grid:
		values = resizedPositions(values, im.ViT, rows)
		im.Interpolated = append(im.Interpolated, fmt.Sprintf("%s from %d×%d to %d×%d", key, rows, rows, im.ViT.GridSize, im.ViT.GridSize))
	case !slices.Equal(shape, theirs):
		im.Reshaped = append(im.Reshaped, fmt.Sprintf("%s from %v to %v", key, shape, theirs))
	default:
		im.Matched = append(im.Matched, key)
	}
	im.values[w.Path] = tensors.FromFlatDataAndDimensions(transposed(values, w.Shape, false), w.Shape...)
	return nil
}

// resizedPositions resizes a table of position embeddings, with that of the [CLS] token first, from size² to the transformer's grid.
func resizedPositions(values []float32, v encoder.ViT, size int) []float32 {
	matrix, dim := v.Positions.Matrix(size, v.GridSize), v.Dim
	out := append(make([]float32, 0, (1+v.GridSize*v.GridSize)*dim), values[:dim]...)
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
							sum += byRow * byColumn * float64(values[(1+r*size+c)*dim+f])
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

// Apply sets the transformer's variables in the store, under scope ("/teacher", or "/" for the store's root), and creates them if needed.
// Weights that the file does not have are left alone. If a variable has another shape, Apply returns an error and changes nothing.
func (im *Import) Apply(store *model.Store, scope string) error {
	at := func(path string) string { return strings.TrimSuffix(scope, "/") + "/" + path }
	paths := slices.Sorted(maps.Keys(im.values))
	for _, path := range paths {
		if v := store.GetVariable(at(path)); v != nil && !v.Shape().Equal(im.values[path].Shape()) {
			return fmt.Errorf("variable %s has shape %s, the weights have %s", at(path), v.Shape(), im.values[path].Shape())
		}
	}
	for _, path := range paths {
		value, err := im.values[path].LocalClone()
		if err != nil {
			return err
		}
		if v := store.GetVariable(at(path)); v != nil {
			err = v.SetValue(value)
		} else {
			_, err = store.CreateVariable(at(path), value)
		}
		if err != nil {
			return fmt.Errorf("variable %s: %w", at(path), err)
		}
	}
	return nil
}

// String returns a report on the keys, with one line per kind.
func (im *Import) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s from keys %s*\n", im.ViT.Name, im.Prefix)
	for _, kind := range []struct {
		name string
		keys []string
	}{{"matched", im.Matched}, {"reshaped", im.Reshaped}, {"interpolated", im.Interpolated}, {"missing", im.Missing}, {"unused", im.Unused}} {
		fmt.Fprintf(&text, "%-13s %4d", kind.name, len(kind.keys))
		if shown := kind.keys[:min(len(kind.keys), 4)]; kind.name != "matched" && len(shown) > 0 {
			fmt.Fprintf(&text, "  %s", strings.Join(shown, ", "))
			if len(kind.keys) > len(shown) {
				text.WriteString(", …")
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}
