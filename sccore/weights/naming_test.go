package weights

import (
	"path/filepath"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
)

func TestNamingOfExports(t *testing.T) {
	for name, namings := range map[string][]Naming{
		"vit-8x1x2p4-grid2":                         {Timm, Transformers},
		"vit-8x1x2p4-grid2-reg2-ls":                 {Timm, Official, Transformers},
		"vit-8x1x2p4-reg2-ls-qv-rope100-eps0.00001": {Timm, Official, Transformers},
	} {
		v, err := encoder.ViTByName(name)
		if err != nil {
			t.Fatal(err)
		}
		store := model.NewStore()
		for _, w := range v.Weights() {
			if _, err := store.CreateVariable("/"+w.Path, tensors.FromFlatDataAndDimensions(make([]float32, w.Size()), w.Shape...)); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range namings {
			path := filepath.Join(t.TempDir(), ModelFile)
			if err := Export(path, want, store, "/", v, nil, nil); err != nil {
				t.Fatal(err)
			}
			if err := WriteConfig(path, want, v, datasets.DefaultPreprocessing(), 8); err != nil {
				t.Fatal(err)
			}
			if got, err := NamingOf(path); err != nil || got != want {
				t.Errorf("%s under %s's names: %q, %v", name, want, got, err)
			}
		}
	}
	if _, err := NamingOf("nowhere.safetensors"); err == nil {
		t.Error("a file that is not there has a naming")
	}
}
