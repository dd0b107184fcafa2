package evaluation_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/weights"
)

// wave is tensor k of testdata/attention.py.
func wave(k, n int) []float32 {
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(math.Sin(12.9898*float64(i) + 78.233*float64(k)))
	}
	return values
}

// TestAttentionIsTimms reads weights in timm's layout and compares the maps with timm's, which testdata/attention.py wrote.
func TestAttentionIsTimms(t *testing.T) {
	content, err := os.ReadFile("testdata/attention.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Registers int
		Names     []string
		Maps      [][]float64
	}
	if err := json.Unmarshal(content, &cases); err != nil || len(cases) != 2 {
		t.Fatal(len(cases), err)
	}
	shapes := map[string][]int{
		"cls_token": {1, 1, 12}, "patch_embed.proj.weight": {12, 3, 4, 4}, "attn.qkv.weight": {36, 12}, "attn.qkv.bias": {36}, "attn.proj.weight": {12, 12},
		"mlp.fc1.weight": {48, 12}, "mlp.fc1.bias": {48}, "mlp.fc2.weight": {12, 48},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d registers", c.Registers), func(t *testing.T) {
			named := map[string]*tensors.Tensor{}
			for k, name := range c.Names {
				dims := []int{12} // Other biases, and norms.
				for suffix, of := range shapes {
					if strings.HasSuffix(name, suffix) {
						dims = of
					}
				}
				switch {
				case name == "pos_embed" && c.Registers == 0: // With a position of [CLS].
					dims = []int{1, 17, 12}
				case name == "pos_embed":
					dims = []int{1, 16, 12}
				case name == "reg_token":
					dims = []int{1, c.Registers, 12}
				}
				size := 1
				for _, dim := range dims {
					size *= dim
				}
				named[name] = tensors.FromFlatDataAndDimensions(wave(k, size), dims...)
			}
			file := filepath.Join(t.TempDir(), "timm.safetensors")
			if err := safetensors.Write(file, named, nil); err != nil {
				t.Fatal(err)
			}
			name := "vit-12x2x3p4-grid4"
			if c.Registers > 0 {
				name += fmt.Sprintf("-reg%d", c.Registers)
			}
			want, err := encoder.ViTByName(name)
			if err != nil {
				t.Fatal(err)
			}
			read, err := weights.ReadViT(file, want, "")
			if err != nil {
				t.Fatal(err)
			}
			testbackend.Each(t, func(t *testing.T, b compute.Backend) {
				store := model.NewStore()
				defer store.Finalize()
				if err := read.Apply(store, "/"); err != nil {
					t.Fatal(err)
				}
				frozen, err := evaluation.NewFeatureExtractor(b, read.ViT, store, "/", 1)
				if err != nil {
					t.Fatal(err)
				}
				defer frozen.Close()
				planes := wave(1000, 3*16*16) // [3, 16, 16] there.
				im := evaluation.Image{Height: 16, Width: 16, Pixels: make([]float32, len(planes))}
				for i := range im.Pixels {
					im.Pixels[i] = planes[i%3*256+i/3]
				}
				got, err := frozen.Attention(im)
				if err != nil {
					t.Fatal(err)
				}
				if got.Rows != 4 || got.Columns != 4 || len(got.Class) != 3 || got.Filter != nil {
					t.Fatalf("%d×%d, %d heads, %d prototypes", got.Rows, got.Columns, len(got.Class), len(got.Filter))
				}
				for h, head := range c.Maps {
					for p, want := range head {
						if !(math.Abs(got.Class[h][p]-want) <= 1e-4) {
							t.Fatalf("head %d, patch %d: %g, want %g", h, p, got.Class[h][p], want)
						}
					}
				}
			})
		})
	}
}

// TestAttentionOfTheFilter: at each patch, the maps of a head sum to 1, and a prototype has its own.
func TestAttentionOfTheFilter(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		v, store, err := evaluation.RandomViT("vit-8x1x2p4", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Finalize()
		v.Prototypes = 3
		for k, w := range v.Weights() { // The filter's weights are new.
			size := 1
			for _, dim := range w.Shape {
				size *= dim
			}
			if store.GetVariable("/"+w.Path) == nil {
				if _, err := store.CreateVariable("/"+w.Path, tensors.FromFlatDataAndDimensions(wave(k, size), w.Shape...)); err != nil {
					t.Fatal(err)
				}
			}
		}
		frozen, err := evaluation.NewFeatureExtractor(b, v, store, "/", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer frozen.Close()
		got, err := frozen.Attention(evaluation.Image{Height: 8, Width: 12, Pixels: wave(7, 8*12*3)})
		if err != nil {
			t.Fatal(err)
		}
		if got.Rows != 2 || got.Columns != 3 || len(got.Filter) != 3 || len(got.Filter[0]) != 2 {
			t.Fatalf("%+v", got)
		}
		for h := range 2 {
			for p := range 6 {
				sum := got.Filter[0][h][p] + got.Filter[1][h][p] + got.Filter[2][h][p]
				if !(math.Abs(sum-1) <= 1e-5) || got.Filter[0][h][p] == got.Filter[1][h][p] {
					t.Errorf("head %d, patch %d: %g, %g and %g", h, p, got.Filter[0][h][p], got.Filter[1][h][p], got.Filter[2][h][p])
				}
			}
		}
		if _, err := frozen.Attention(evaluation.Image{Name: "x.png", Height: 8, Width: 10, Pixels: wave(7, 240)}); err == nil || !strings.Contains(err.Error(), "x.png: 8×10 pixels") {
			t.Error(err)
		}
	})
}
