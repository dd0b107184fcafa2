package weights

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/safetensors"
)

// Export writes the transformer's weights, the variables under scope, to a .safetensors file with the names of naming and PyTorch's layout, for [ReadViT]. Under
// timm's names it writes any transformer; timm loads it strictly if [Naming.Fits] allows it, and an Object-Aware Filter keeps its own names. Under others it writes only what Fits
// allows. The tensors of head, which may be empty, get the prefix "head.". The metadata also gets the architecture and the resizing of positions, unless they are one of
// [encoder.ViTNames] and DINO's under timm's names. A value that is not finite is an error that names it. The write is atomic.
func Export(path string, naming Naming, store *model.Store, scope string, v encoder.ViT, head map[string]*tensors.Tensor, metadata map[string]string) (err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("writing %s: %w", path, err) })
	if naming != Timm {
		try.E(naming.Fits(v))
	}
	all := floats{}
	for _, w := range v.Weights() {
		full := strings.TrimSuffix(scope, "/") + "/" + w.Path
		variable := store.GetVariable(full)
		if variable == nil {
			fail("variable %s is missing", full)
		}
		if !slices.Equal(variable.Shape().Dimensions, w.Shape) {
			fail("variable %s has shape %s, the transformer wants %v", full, variable.Shape(), w.Shape)
		}
		values := try.E1(valuesIn(variable))
		all.set(strings.ReplaceAll(w.Path, "/", "."), transposed(values, w.Shape, true), torchShape(w.Shape)...)
	}
	all.addParts(naming, v)
	all = all.under(naming, v)
	for name, value := range head {
		all["head."+name] = value
		if err := safetensors.CheckFinite(all.values("head." + name)); err != nil {
			fail("tensor head.%s: %w", name, err)
		}
	}
	return safetensors.Write(path, all, described(metadata, naming, v))
}

// described adds what the names and shapes of tensors do not say to the metadata of a file. For the usual transformers under timm's names they say all, and the
// files stay the same to the byte: records name encoders by their content.
func described(metadata map[string]string, naming Naming, v encoder.ViT) map[string]string {
	named := v.Named()
	if naming == Timm && slices.Contains(encoder.ViTNames(), named.Name) && v.Positions == encoder.DINOPositions {
		return metadata
	}
	all := map[string]string{architectureKey: named.Name}
	if v.GridSize > 0 && v.Positions != "" {
		all[positionsKey] = string(v.Positions)
	}
	return lo.Assign(all, metadata)
}

// floats holds tensors of float32 in PyTorch's layout by name.
type floats map[string]*tensors.Tensor

func (a floats) set(name string, values []float32, shape ...int) {
	a[name] = tensors.FromFlatDataAndDimensions(values, shape...)
}

func (a floats) values(name string) []float32 { return tensors.MustCopyFlatData[float32](a[name]) }

// addParts brings what the code of a naming stores in another way than we do to its way. The reverse is [normalize].
func (a floats) addParts(n Naming, v encoder.ViT) {
	code, zeros, ones := n.code(v), make([]float32, v.Dim), slices.Repeat([]float32{1}, v.Dim)
	officialV3 := n == Official && code == "3"
	if _, ok := codes[n][code][maskToken]; ok { // Only pretraining reads it.
		a.set(maskToken, zeros, lo.Ternary(code == "dinov3_vit", []int{1, 1, v.Dim}, []int{1, v.Dim})...)
	}
	if v.Registers > 0 && v.GridSize > 0 && n != Timm { // [CLS] has a position, of 0.
		a.set("pos_embed", slices.Concat(zeros, a.values("pos_embed")), 1, 1+v.GridSize*v.GridSize, v.Dim)
	}
	if officialV3 {
		periods := v.RoPE.Periods(v.Dim / v.NumHeads)
		a.set(periodsName, periods, len(periods))
	}
	for i := range v.Depth {
		block := fmt.Sprintf("blocks.%d.", i)
		attention := block + "attn."
		if v.Bias == encoder.QVBias && code != "Eva" && code != "dinov3_vit" { // One bias, with zeros for keys.
			a.set(attention+"qkv.bias", slices.Concat(a.values(attention+"q_bias"), zeros, a.values(attention+"v_bias")), 3*v.Dim)
			delete(a, attention+"q_bias")
			delete(a, attention+"v_bias")
		}
		if officialV3 {
			keys := zeros
			if v.Bias == encoder.QKVBias {
				keys = ones
			} else if v.Bias == encoder.NoBias {
				a.set(attention+"qkv.bias", make([]float32, 3*v.Dim), 3*v.Dim)
			}
			a.set(attention+"qkv.bias_mask", slices.Concat(ones, keys, ones), 3*v.Dim)
		}
		if n == Transformers && code != "vit" && !v.LayerScale { // These classes always have it.
			a.set(block+"ls1.gamma", ones, v.Dim)
			a.set(block+"ls2.gamma", ones, v.Dim)
		}
	}
}

var ourBlock = regexp.MustCompile(`^blocks\.(\d+)\.`)

// under returns the tensors under the names of the code of a naming, in its pieces.
func (a floats) under(n Naming, v encoder.ViT) floats {
	names, blocks, out := codes[n][n.code(v)], "blocks.", floats{}
	if n == Transformers {
		blocks = map[bool]string{true: "layer.", false: "encoder.layer."}[generation(v) == 3]
	}
	for name, tensor := range a {
		block := ourBlock.FindString(name)
		ours, kind := strings.TrimPrefix(name, block), ""
		block = strings.Replace(block, "blocks.", blocks, 1)
		theirs := names[ours]
		switch at := strings.LastIndexByte(ours, '.') + 1; {
		case theirs != "":
		case ours == "attn.q_bias":
			theirs = strings.Fields(names["attn.qkv."])[0] + "bias"
		case ours == "attn.v_bias":
			theirs = strings.Fields(names["attn.qkv."])[2] + "bias"
		default:
			ours, kind = ours[:at], ours[at:]
			if v.SwiGLU {
				ours = strings.Replace(ours, "mlp.", "swiglu.", 1)
			}
			theirs = names[ours]
		}
		parts := strings.Fields(theirs)
		if len(parts) == 1 {
			out[block+theirs+kind] = tensor
			continue
		}
		values, shape := tensors.MustCopyFlatData[float32](tensor), slices.Clone(tensor.Shape().Dimensions)
		shape[0] /= len(parts)
		size := len(values) / len(parts)
		for i, part := range parts {
			out.set(block+part+kind, values[i*size:(i+1)*size], shape...)
		}
	}
	return out
}

// ExportModel writes a whole network, the float32 variables of a store that are not below the scopes without, to a .safetensors file with PyTorch's
// layouts: the variable /decode_head/conv_seg/weight becomes the tensor decode_head.conv_seg.weight. The write is atomic.
func ExportModel(path string, store *model.Store, without []string, metadata map[string]string) (err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("writing %s: %w", path, err) })
	named := floats{}
	for variable := range store.IterVariables() {
		isBelow := func(scope string) bool { return strings.HasPrefix(variable.Path(), scope+model.ScopeSeparator) }
		if variable.DType() != dtypes.Float32 || slices.ContainsFunc(without, isBelow) {
			continue
		}
		values := try.E1(valuesIn(variable))
		shape := variable.Shape().Dimensions
		named.set(torchName(variable), transposed(values, shape, true), torchShape(shape)...)
	}
	return safetensors.Write(path, named, metadata)
}

// ImportModel sets the float32 variables of a store from the tensors of a file that [ExportModel] wrote. The variables exist already, and there must be a
// tensor of its shape for each of them and no others. Otherwise the store is unchanged, and the error names the tensor.
func ImportModel(named map[string]*tensors.Tensor, store *model.Store) error {
	var used []string
	values := map[*model.Variable]*tensors.Tensor{}
	for variable := range store.IterVariables() {
		if variable.DType() != dtypes.Float32 {
			continue
		}
		shape := variable.Shape().Dimensions
		name := torchName(variable)
		tensor := named[name]
		if tensor == nil {
			return fmt.Errorf("tensor %s is missing", name)
		}
		if !tensor.Shape().Equal(shapes.Make(dtypes.Float32, torchShape(shape)...)) {
			return fmt.Errorf("tensor %s is %s, the model wants %v in float32", name, tensor.Shape(), torchShape(shape))
		}
		used = append(used, name)
		flat, err := tensors.CopyFlatData[float32](tensor)
		if err = cmp.Or(err, safetensors.CheckFinite(flat)); err != nil {
			return fmt.Errorf("tensor %s: %w", name, err)
		}
		values[variable] = tensors.FromFlatDataAndDimensions(transposed(flat, shape, false), shape...)
	}
	if unknown := lo.Without(slices.Sorted(maps.Keys(named)), used...); len(unknown) > 0 {
		return fmt.Errorf("the model has no tensor %s", unknown[0])
	}
	for variable, value := range values {
		if err := variable.SetValue(value); err != nil {
			return fmt.Errorf("variable %s: %w", variable.Path(), err)
		}
	}
	return nil
}

// Take sets variables of a store from a file that [ReadViT] reads, such as a full checkpoint with heads and both branches, and returns their paths. keys lists the keys that a
// variable may have, without the parts that wrappers of modules add; the first that has a tensor of its shape in PyTorch's layout counts. The error names the file.
func Take(path string, store *model.Store, keys func(variable string) []string) (taken []string, err error) {
	err = open(path, func(file *sources, _ modelFacts) error {
		all := lo.MapKeys(file.tensors, func(_ source, key string) string { return unwrapped(key) })
		for variable := range store.IterVariables() {
			shape := variable.Shape().Dimensions
			key, found := lo.Find(keys(variable.Path()), func(key string) bool {
				return lo.HasKey(all, key) && slices.Equal(lo.Without(all[key].shape, 1), lo.Without(torchShape(shape), 1))
			})
			if !found {
				continue
			}
			values, err := all[key].finite()
			if err == nil {
				err = variable.SetValue(tensors.FromFlatDataAndDimensions(transposed(values, shape, false), shape...))
			}
			if err != nil {
				return fmt.Errorf("key %s: %w", key, err)
			}
			taken = append(taken, variable.Path())
		}
		return nil
	})
	return taken, err
}

// FitsIn returns an error unless the tensors of a file have as many values as a transformer needs that its metadata describes. Such a number may be any, and
// nothing of that size should be made.
func FitsIn(named map[string]*tensors.Tensor, v encoder.ViT) error {
	held := lo.SumBy(lo.Values(named), func(tensor *tensors.Tensor) float64 { return float64(tensor.Size()) })
	wanted := float64(v.Depth) // At least one value a block; a list of the weights of any number of blocks would be too long.
	if wanted <= held {
		wanted = lo.SumBy(v.Weights(), func(w encoder.Weight) float64 {
			return lo.ProductBy(w.Shape, func(dim int) float64 { return float64(dim) })
		})
	}
	if wanted > held {
		return fmt.Errorf("describes a transformer of %d blocks of width %d, for which it holds too few values", v.Depth, v.Dim)
	}
	return nil
}

// valuesIn returns the values of a float32 variable, which are finite. The error names it.
func valuesIn(variable *model.Variable) (values []float32, err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("variable %s: %w", variable.Path(), err) })
	values = try.E1(tensors.CopyFlatData[float32](try.E1(variable.Value())))
	try.E(safetensors.CheckFinite(values))
	return values, nil
}

// torchName is the name of a variable in PyTorch's way.
func torchName(variable *model.Variable) string {
	return strings.ReplaceAll(strings.TrimPrefix(variable.Path(), model.ScopeSeparator), model.ScopeSeparator, ".")
}

// Complete returns an error that names the file if it lacks weights of the filter.
func (im *Import) Complete() error {
	if len(im.Missing) > 0 {
		return fmt.Errorf("%s: weights of the filter are missing, first %s", im.File, im.Missing[0])
	}
	return nil
}

// Store returns a store with the transformer at its root.
func (im *Import) Store() (*model.Store, error) {
	store := model.NewStore()
	if err := im.Apply(store, "/"); err != nil {
		store.Finalize()
		return nil, fmt.Errorf("%s: %w", im.File, err)
	}
	return store, nil
}

// Apply sets the transformer's variables in the store, under scope ("/teacher", or "/" for the store's root), and creates them if needed.
// Weights that the file does not have are left alone. If a variable has another shape, Apply returns an error and changes nothing.
func (im *Import) Apply(store *model.Store, scope string) (err error) {
	defer try.Handle(&err)
	at := func(path string) string { return strings.TrimSuffix(scope, "/") + "/" + path }
	paths := slices.Sorted(maps.Keys(im.values))
	for _, path := range paths {
		if v := store.GetVariable(at(path)); v != nil && !v.Shape().Equal(im.values[path].Shape()) {
			return fmt.Errorf("variable %s has shape %s, the weights have %s", at(path), v.Shape(), im.values[path].Shape())
		}
	}
	for _, path := range paths {
		value := try.E1(im.values[path].LocalClone())
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

// Release frees the weights that the file held, once [Import.Apply] has put them in a store: large files would be in memory three times. What the
// transformer is stays.
func (im *Import) Release() {
	for _, value := range im.values {
		value.FinalizeAll()
	}
	im.values = nil
}

// String returns a report on the keys, with one line per kind.
func (im *Import) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s from %s\n", im.ViT.Name, lo.Ternary(im.Prefix == "", "all keys", "keys "+im.Prefix+"*"))
	for _, kind := range []struct {
		name string
		keys []string
	}{{"matched", im.Matched}, {"reshaped", im.Reshaped}, {"interpolated", im.Interpolated}, {"missing", im.Missing}, {"unused", im.Unused},
		{"ignored", im.Ignored}} {
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
