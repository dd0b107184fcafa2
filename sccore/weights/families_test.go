package weights

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/safetensors"
)

// member is the description of a file by testdata/families/make.py.
type member struct {
	Name, Family, Naming, File, Refused string
	Positions                           encoder.Positions
	Patch, Dim, Depth, Heads, Grid      int
	Registers, Hidden                   int
	SwiGLU, RoPE                        bool
	LayerScale                          bool `json:"layer_scale"`
	Epsilon                             float64
	Unused                              []string
	Cases                               []struct{ Height, Width int }
}

func (m member) path() string { return filepath.Join("testdata", "families", m.File) }

// given is what no file says: official files have no heads, and DeiT's have DINO's names.
func (m member) given() (v encoder.ViT) {
	if m.Naming == "official" {
		v.NumHeads = m.Heads
		if m.Family == "deit" {
			v.Positions = m.Positions
		}
	}
	return v
}

func members(t testing.TB) (all []member) {
	t.Helper()
	raw, err := os.ReadFile("testdata/families/families.json")
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	if err != nil || len(all) < 20 {
		t.Fatalf("%d members, %v", len(all), err)
	}
	return all
}

// TestFamiliesAreRecognised reads a tiny member of each family under each naming, and compares what it is with what made it.
func TestFamiliesAreRecognised(t *testing.T) {
	for _, m := range members(t) {
		t.Run(m.Name, func(t *testing.T) {
			im, err := ReadViT(m.path(), m.given(), "")
			if m.Refused != "" {
				if err == nil || !strings.Contains(err.Error(), m.Refused) || !strings.HasPrefix(err.Error(), m.path()+": key ") {
					t.Errorf("said %v, want %s refused", err, m.Refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			v := im.ViT
			epsilon := v.Epsilon
			if epsilon == 0 {
				epsilon = 1e-6
			}
			hidden := v.MLPWidth
			if hidden == 0 {
				hidden = 4 * v.Dim
			}
			if v.PatchSize != m.Patch || v.Dim != m.Dim || v.Depth != m.Depth || v.NumHeads != m.Heads || v.GridSize != m.Grid || v.Registers != m.Registers ||
				hidden != m.Hidden || v.SwiGLU != m.SwiGLU || v.LayerScale != m.LayerScale || v.RoPE.Base > 0 != m.RoPE || epsilon != m.Epsilon ||
				m.Grid > 0 && v.Positions != m.Positions {
				t.Errorf("read %+v of %+v", v, m)
			}
			wantKeys(t, "unused", im.Unused, m.Unused...)
			wantKeys(t, "missing, interpolated and ignored", append(append(im.Missing, im.Interpolated...), im.Ignored...))
			if named, err := encoder.ViTByName(v.Name); err != nil || named.Named().Name != v.Name {
				t.Errorf("its name %s: %v", v.Name, err)
			}
			if _, err := ReadViT(m.path(), v, ""); err != nil { // Asked for by name.
				t.Error(err)
			}
		})
	}
}

// tokensOf computes the [CLS] token and the patch tokens of images by imported weights, until the test ends.
func tokensOf(t *testing.T, b compute.Backend, im *Import) *model.Exec {
	store := model.NewStore()
	if err := im.Apply(store, "/"); err != nil {
		t.Fatal(err)
	}
	exec := model.MustNewExec(b, store, func(scope *model.Scope, images *Node) []*Node {
		tokens := im.ViT.Tokens(scope, images)
		return []*Node{tokens.Class, tokens.Patches}
	})
	t.Cleanup(exec.Finalize)
	return exec
}

// TestFamiliesAgreeWithTheirMakers compares features with those that timm, transformers and the makers' own code compute.
func TestFamiliesAgreeWithTheirMakers(t *testing.T) {
	features, _, err := safetensors.Read("testdata/families/features.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		seen := map[string]bool{}
		for _, m := range members(t) {
			cases := m.Cases
			if b.Name() == "xla" { // Compiling takes a second: the oblong image, for the first naming of each family.
				if seen[m.Family] {
					continue
				}
				cases = cases[max(len(cases)-1, 0):]
			}
			if seen[m.Family] = true; m.Refused != "" {
				continue
			}
			t.Run(m.Name, func(t *testing.T) {
				im, err := ReadViT(m.path(), m.given(), "")
				if err != nil {
					t.Fatal(err)
				}
				exec := tokensOf(t, b, im)
				for _, c := range cases {
					name := fmt.Sprintf("%s/%dx%d", m.Name, c.Height, c.Width)
					for i, got := range exec.MustCall(sine(1, 1, c.Height, c.Width, 3)) {
						of := []string{"class", "patches"}[i]
						want := features[name+"/"+of]
						if want == nil {
							t.Fatalf("no %s/%s", name, of)
						}
						var values []float64
						for _, x := range tensors.MustCopyFlatData[float32](want) {
							values = append(values, float64(x))
						}
						if d := farthest(tensors.MustCopyFlatData[float32](got), values); !(d <= 1e-4) {
							t.Errorf("%s/%s is off by %.2g", name, of, d)
						}
					}
				}
			})
		}
	})
}
