package weights

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
)

// valuesOf reads every tensor of a file.
func valuesOf(t *testing.T, path string) (values map[string][]float32, shapes map[string][]int) {
	t.Helper()
	read, err := openSources(path)
	if err != nil {
		t.Fatal(err)
	}
	defer read.close()
	values, shapes = map[string][]float32{}, map[string][]int{}
	for key, source := range read.tensors {
		key = strings.TrimPrefix(strings.TrimPrefix(key, "model."), "vit.")
		if values[key], err = source.floats(); err != nil {
			t.Fatal(err)
		}
		shapes[key] = source.shape
	}
	return values, shapes
}

// TestExportGivesTheOtherNamings reads each member of a family under each naming and writes it under the next: the names, shapes and values equal the member
// under that naming. What is read back, from the file and its config.json alone, is the same transformer.
func TestExportGivesTheOtherNamings(t *testing.T) {
	byName := map[string]member{}
	for _, m := range members(t) {
		byName[m.Name] = m
	}
	for _, m := range members(t) {
		naming := map[string]Naming{"official": Timm, "timm": Transformers, "transformers": Official}[m.Naming]
		target, ok := byName[m.Family+"."+string(naming)]
		if !ok || m.Name != m.Family+"."+m.Naming {
			continue // AugReg has no official file, and the variants of DINOv3 have weights of their own.
		}
		t.Run(m.Name+" as "+string(naming), func(t *testing.T) {
			im, err := ReadViT(m.path(), m.given(), "")
			if err != nil {
				t.Fatal(err)
			}
			if err := naming.Fits(im.ViT); m.RoPE && m.Naming == "official" {
				if err == nil || !strings.Contains(err.Error(), "bfloat16") {
					t.Errorf("said %v, want rounded periods refused", err)
				}
				if im, err = ReadViT(m.path(), m.given(), "", "rope_embed.periods"); err != nil {
					t.Fatal(err)
				}
			}
			v := exportAndRead(t, im, naming, target)
			v.Prototypes, v.InitStd = im.ViT.Prototypes, im.ViT.InitStd
			if v != im.ViT {
				t.Errorf("read back %+v, wrote %+v", v, im.ViT)
			}
		})
	}
}

// exportAndRead compares an export with the member of its naming and returns what is read back.
func exportAndRead(t *testing.T, im *Import, naming Naming, target member) encoder.ViT {
	t.Helper()
	store, path := model.NewStore(), filepath.Join(t.TempDir(), ModelFile)
	if err := im.Apply(store, "/"); err != nil {
		t.Fatal(err)
	}
	if err := Export(path, naming, store, "/", im.ViT, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := WriteConfig(path, naming, im.ViT, datasets.DefaultPreprocessing(), 224); err != nil {
		t.Fatal(err)
	}
	got, shapes := valuesOf(t, path)
	want, wantShapes := valuesOf(t, target.path())
	for _, key := range target.Unused {
		key = strings.TrimPrefix(key, "model.")
		delete(want, key)
		if strings.HasSuffix(key, "mask_token") {
			if !slices.Equal(shapes[key], wantShapes[key]) && len(got[key]) > 0 {
				t.Errorf("%s has shape %v, want %v", key, shapes[key], wantShapes[key])
			}
			delete(got, key)
		}
	}
	wantKeys(t, "names", slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(want))...)
	class, positions := "cls_token", "pos_embed"
	if naming == Transformers {
		class, positions = "embeddings.cls_token", "embeddings.position_embeddings"
	}
	if im.ViT.Registers > 0 && len(want[positions]) == len(want[class])*(1+im.ViT.GridSize*im.ViT.GridSize) { // Only the sum counts.
		for _, values := range []map[string][]float32{got, want} {
			for i := range values[class] {
				values[class][i] += values[positions][i]
				values[positions][i] = 0
			}
		}
	}
	for key := range want {
		if !slices.Equal(shapes[key], wantShapes[key]) {
			t.Errorf("%s has shape %v, want %v", key, shapes[key], wantShapes[key])
			continue
		}
		mask := want[key+"_mask"]
		for i, x := range want[key] {
			if mask != nil {
				x *= mask[i]
			}
			if key == "rope_embed.periods" && !im.ViT.RoPE.BF16 {
				x = im.ViT.RoPE.Periods(im.ViT.Dim / im.ViT.NumHeads)[i]
			}
			if !(math.Abs(float64(got[key][i]-x)) <= 1e-6) {
				t.Errorf("%s[%d] is %v, want %v", key, i, got[key][i], x)
				break
			}
		}
	}
	again, err := ReadViT(path, encoder.ViT{}, "")
	if err != nil {
		t.Fatal(err)
	}
	return again.ViT
}

// TestExportRefusesWhatIsNotFinite: the line names the variable or the tensor of the head, and no file is written.
func TestExportRefusesWhatIsNotFinite(t *testing.T) {
	_, store := readTiny(t, "testdata/tiny.safetensors", "")
	path := filepath.Join(t.TempDir(), "exported.safetensors")
	refused := func(head map[string]*tensors.Tensor, want string) {
		t.Helper()
		if err := Export(path, Timm, store, "/", tiny, head, nil); err == nil || err.Error() != "writing "+path+": "+want {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("it has written a file")
		}
	}
	refused(map[string]*tensors.Tensor{"b": tensors.FromValue([]float32{0, float32(math.NaN())})}, "tensor head.b: entry 1 is NaN")
	if err := store.GetVariable("/norm/bias").SetValue(tensors.FromValue(append(make([]float32, 15), float32(math.Inf(-1))))); err != nil {
		t.Fatal(err)
	}
	refused(nil, "variable /norm/bias: entry 15 is -Inf")
}
