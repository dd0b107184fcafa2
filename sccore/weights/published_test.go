package weights

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/encoder"
)

// TestPublishedTransformerAgreesWithTransformers reads a transformer of full size whose weights were trained: that of profile real.
func TestPublishedTransformerAgreesWithTransformers(t *testing.T) {
	folder := os.Getenv("SEMCON_VITS14")
	if folder == "" {
		t.Skip("SEMCON_VITS14 names no folder that tools/vits14.py has made")
	}
	content, err := os.ReadFile("testdata/vits14.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]struct{ Class, First, Last []float64 }
	if err := json.Unmarshal(content, &cases); err != nil {
		t.Fatal(err)
	}
	im, err := ReadViT(filepath.Join(folder, "model.safetensors"), encoder.ViT{}, "")
	if err != nil {
		t.Fatal(err)
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		exec := tokensOf(t, b, im)
		for _, size := range [][2]int{{112, 112}, {70, 126}} {
			want := cases[fmt.Sprintf("%dx%d", size[0], size[1])]
			tokens := exec.MustCall(sine(1, 1, size[0], size[1], 3))
			class, patches := tensors.MustCopyFlatData[float32](tokens[0]), tensors.MustCopyFlatData[float32](tokens[1])
			for name, d := range map[string]float64{
				"[CLS]":           farthest(class, want.Class),
				"the first patch": farthest(patches, want.First),
				"the last patch":  farthest(patches[len(patches)-len(want.Last):], want.Last),
			} {
				if !(d <= 1e-4) || len(want.Last) != im.ViT.Dim {
					t.Errorf("%v: %s is off by %.2g", size, name, d)
				}
			}
		}
	})
}
