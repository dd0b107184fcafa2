package weights

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/safetensors"
)

// small is the transformer of testdata/layouts.py.
var small = encoder.ViT{Name: "small", PatchSize: 4, Dim: 8, Depth: 1, NumHeads: 2, GridSize: 2, Positions: encoder.DINOPositions}

// layout is the description of a file by testdata/layouts.py or testdata/foreign.py.
type layout struct {
	File, Branch, Prefix  string
	Scale                 float32
	Matched, Unused, Head []string // Matched is empty if the weights have their own names after the prefix.
}

// keys are those of the transformer's weights.
func (l layout) keys() []string {
	if l.Matched != nil {
		return l.Matched
	}
	return weightKeys(l.Prefix, small)
}

func (l layout) path() string { return filepath.Join("testdata", "layouts", l.File) }

func layouts(t *testing.T) (all []layout) {
	t.Helper()
	for name, count := range map[string]int{"layouts.json": 12, "foreign.json": 21} {
		var some []layout
		raw, err := os.ReadFile(filepath.Join("testdata", "layouts", name))
		if err == nil {
			err = json.Unmarshal(raw, &some)
		}
		if err != nil || len(some) != count {
			t.Fatalf("%s: %d layouts, %v", name, len(some), err)
		}
		all = append(all, some...)
	}
	return all
}

// weightKeys returns the keys of a transformer's weights in a file.
func weightKeys(prefix string, v encoder.ViT) (keys []string) {
	for _, w := range v.Weights() {
		keys = append(keys, prefix+strings.ReplaceAll(w.Path, "/", "."))
	}
	return keys
}

func wantKeys(t *testing.T, kind string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("%s are %q, want %q", kind, got, want)
	}
}

// TestOfficialLayouts reads files in the layouts that each family publishes, with both branches if there are two, and compares the whole report
// and every value.
func TestOfficialLayouts(t *testing.T) {
	timm, _, err := safetensors.Read("testdata/layouts/timm.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layouts(t) {
		t.Run(l.File+" "+l.Branch, func(t *testing.T) {
			im, err := ReadViT(l.path(), small, l.Branch)
			if err != nil {
				t.Fatal(err)
			}
			if im.Prefix != l.Prefix {
				t.Errorf("prefix %q, want %q", im.Prefix, l.Prefix)
			}
			wantKeys(t, "matched", im.Matched, l.keys()...)
			wantKeys(t, "unused", im.Unused, l.Unused...)
			wantKeys(t, "reshaped, interpolated and missing", slices.Concat(im.Reshaped, im.Interpolated, im.Missing))
			wantKeys(t, "the head's", slices.Collect(maps.Keys(im.Head)), l.Head...)
			for _, w := range small.Weights() {
				want := tensors.MustCopyFlatData[float32](timm[strings.ReplaceAll(w.Path, "/", ".")])
				for i, x := range transposed(tensors.MustCopyFlatData[float32](im.values[w.Path]), w.Shape, true) {
					if x != l.Scale*want[i] {
						t.Fatalf("%s[%d] is %v, want %v", w.Path, i, x, l.Scale*want[i])
					}
				}
			}
			if l.Branch == "teacher" { // Which is also what nobody says.
				if other, err := ReadViT(l.path(), small, ""); err != nil || other.Prefix != im.Prefix {
					t.Errorf("without a branch: %v", err)
				}
			}
		})
	}
}

func TestReportOfOtherShapes(t *testing.T) {
	for _, l := range layouts(t) {
		other := small
		other.GridSize, other.Prototypes = 3, 4
		im, err := ReadViT(l.path(), other, l.Branch)
		if err != nil {
			t.Fatal(err)
		}
		var filter []string
		for _, w := range other.Weights() {
			if w.Filter {
				filter = append(filter, w.Path)
			}
		}
		positions := func(key string) bool { return strings.HasSuffix(key, "pos_embed") }
		wantKeys(t, "matched", im.Matched, slices.DeleteFunc(slices.Clone(l.keys()), positions)...)
		wantKeys(t, "interpolated", im.Interpolated, l.Prefix+"pos_embed from 2×2 to 3×3")
		wantKeys(t, "missing", im.Missing, filter...)
		wantKeys(t, "reshaped", im.Reshaped)

		other.Depth = 2
		_, err = ReadViT(l.path(), other, l.Branch)
		want := fmt.Sprintf("%s: missing key %sblocks.1.norm1.weight, which the transformer needs", l.path(), l.Prefix)
		if err == nil || err.Error() != want {
			t.Errorf("said %v, want %s", err, want)
		}
	}
	linear, err := ReadViT("testdata/layouts/linear-patches.pth", small, "")
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, "reshaped", linear.Reshaped, "patch_embed.proj.weight from [8 48] to [8 3 4 4]")
	convolution, err := ReadViT("testdata/layouts/dino-backbone.pth", small, "")
	if err != nil {
		t.Fatal(err)
	}
	if path := "patch_embed/proj/weight"; !linear.values[path].Equal(convolution.values[path]) || len(linear.Matched) != len(small.Weights())-1 {
		t.Errorf("patches by a linear layer are not those by a convolution: %s", linear)
	}
	repeated, err := ReadViT("testdata/layouts/repeated.pth", small, "")
	if err != nil || !slices.Equal(tensors.MustCopyFlatData[float32](repeated.values["norm/bias"]), slices.Repeat([]float32{0.25}, small.Dim)) {
		t.Errorf("a bias of one entry with stride 0: %v", err)
	}
}

// TestFilterGoesOutAndIn exports transformers with an Object-Aware Filter in each block and reads them back. The name, the number of prototypes and the block
// of the filter follow from the names and shapes.
func TestFilterGoesOutAndIn(t *testing.T) {
	v, err := encoder.ViTByName("vit-tiny")
	if err != nil {
		t.Fatal(err)
	}
	v.Prototypes = 6
	head := map[string]*tensors.Tensor{"mlp.0.weight": sine(99, 3, 64)}
	for i := range 2 * v.Depth {
		if v.BlocksAfterFilter = i % v.Depth; i == v.Depth {
			v.Filter = encoder.ResidualBlock
		}
		store := model.NewStore()
		for k, w := range v.Weights() {
			if _, err := store.CreateVariable("/student/"+w.Path, sine(k, w.Shape...)); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(t.TempDir(), "filter.safetensors")
		if err := Export(path, Timm, store, "/student", v, head, nil); err != nil {
			t.Fatal(err)
		}
		im, err := ReadViT(path, encoder.ViT{Positions: encoder.DINOPositions}, "")
		if err != nil {
			t.Fatal(err)
		}
		if im.ViT != v {
			t.Errorf("read %+v, want %+v", im.ViT, v)
		}
		if identified, err := Identify(path); err != nil || identified != v {
			t.Errorf("identified %+v, %v, want %+v", identified, err, v)
		}
		wantKeys(t, "matched", im.Matched, weightKeys("", v)...)
		wantKeys(t, "unused", im.Unused, "head.mlp.0.weight")
		wantKeys(t, "reshaped, interpolated and missing", slices.Concat(im.Reshaped, im.Interpolated, im.Missing))
		for _, w := range v.Weights() {
			if !im.values[w.Path].Equal(store.GetVariable("/student/" + w.Path).MustValue()) {
				t.Errorf("%s is another", w.Path)
			}
		}
		if !im.Head["mlp.0.weight"].Equal(head["mlp.0.weight"]) {
			t.Error("the head is another")
		}
		elsewhere := v
		elsewhere.BlocksAfterFilter = (v.BlocksAfterFilter + 1) % v.Depth
		if _, err := ReadViT(path, elsewhere, ""); err == nil || !strings.Contains(err.Error(), "vit-tiny has no such weight") {
			t.Errorf("the filter of another block: %v", err)
		}
	}
}

// TestTwoFilters: a file with filters in two blocks is no transformer that is known.
func TestTwoFilters(t *testing.T) {
	v, err := encoder.ViTByName("vit-tiny")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*tensors.Tensor{}
	for v.Prototypes, v.BlocksAfterFilter = 5, 0; v.BlocksAfterFilter < 2; v.BlocksAfterFilter++ {
		for k, w := range v.Weights() {
			all[strings.ReplaceAll(w.Path, "/", ".")] = sine(k, torchShape(w.Shape)...)
		}
	}
	path := filepath.Join(t.TempDir(), "filters.safetensors")
	if err := safetensors.Write(path, all, nil); err != nil {
		t.Fatal(err)
	}
	want := path + ": keys blocks.1.filter.prototypes and blocks.2.filter.prototypes: more than one block has an Object-Aware Filter"
	if _, err := ReadViT(path, encoder.ViT{}, ""); err == nil || err.Error() != want {
		t.Errorf("said %v, want %s", err, want)
	}
}

// legacyStart starts the files of PyTorch before 1.6.
const legacyStart = "\x80\x02" + legacyMagic

// legacy returns a file in the older format with a tensor on four numbers, from the pickled keys of its arrays and the arrays.
func legacy(keys, data string) []byte {
	return []byte(legacyStart + "\x80\x02M\xe9\x03.\x80\x02}." + tensor(4, 0, tuple(1, 1, 4), tuple(4, 4, 1)) + keys + data)
}

func TestHostileLegacyFilesAreOneLine(t *testing.T) {
	one, numbers := "]"+text("0")+"a.", string([]byte{4, 0, 0, 0, 0, 0, 0, 0})+strings.Repeat("\x00", 16)
	for name, c := range map[string]struct {
		content []byte
		part    string
	}{
		"sound":           {legacy(one, numbers), "key cls_token: has shape [1 1 4]"},
		"no list":         {legacy("}.", numbers), "no list of arrays"},
		"not an array":    {legacy("].", numbers), `array "0" is not in the file`},
		"another array":   {legacy("]"+text("9")+"a.", numbers), "unused or listed twice"},
		"array of a list": {legacy("]]a.", numbers), "unused or listed twice"},
		"doubled array":   {legacy("]("+text("0")+text("0")+"e.", numbers+numbers), "twice"},
		"early array":     {[]byte(legacyStart + "NQ."), "too early"},
		"another count":   {legacy(one, "\x05"+numbers[1:]), "damaged or truncated"},
		"endless count":   {legacy(one, strings.Repeat("\xff", 8)+numbers[8:]), "damaged or truncated"},
		"half a count":    {legacy(one, numbers[:4]), "damaged or truncated"},
		"half an array":   {legacy(one, numbers[:12]), "is truncated"},
	} {
		t.Run(name, func(t *testing.T) { wantRefusal(t, "a.pth", c.content, c.part) })
	}
}
