package weights

import (
	"encoding/json"
	"math"
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

// tiny is the transformer of testdata/vit.py.
var tiny = encoder.ViT{Name: "tiny", PatchSize: 4, Dim: 16, Depth: 2, NumHeads: 2, GridSize: 4, Positions: encoder.DINOPositions}

// sine is wave(k, …) of testdata/vit.py.
func sine(k int, dims ...int) *tensors.Tensor {
	size := 1
	for _, d := range dims {
		size *= d
	}
	values := make([]float32, size)
	for i := range values {
		values[i] = float32(math.Sin(12.9898*float64(i) + 78.233*float64(k)))
	}
	return tensors.FromFlatDataAndDimensions(values, dims...)
}

func farthest(got []float32, want []float64) float64 {
	if len(got) < len(want) {
		return math.Inf(1)
	}
	largest := 0.0
	for i := range want {
		largest = max(largest, math.Abs(float64(got[i])-want[i])) // NaN stays.
	}
	return largest
}

func readTiny(t *testing.T, path, branch string) (*Import, *model.Store) {
	t.Helper()
	im, err := ReadViT(path, tiny, branch)
	if err != nil {
		t.Fatal(err)
	}
	store := model.NewStore()
	if err := im.Apply(store, "/"); err != nil {
		t.Fatal(err)
	}
	return im, store
}

// TestFeaturesAgreeWithPyTorch reads files written by PyTorch and timm, and compares tokens and gradients with theirs.
func TestFeaturesAgreeWithPyTorch(t *testing.T) {
	raw, err := os.ReadFile("testdata/tiny.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Positions     encoder.Positions
		Height, Width int
		Tokens        []float64
		Gradients     map[string][]float64
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		_, store := readTiny(t, "testdata/tiny-dino.pth", "")
		for _, c := range cases {
			v := tiny
			v.Positions = c.Positions
			exec := model.MustNewExec(b, store, func(scope *model.Scope, images *Node) []*Node {
				tokens := v.Tokens(scope, images)
				patches := tokens.Patches.Shape()
				all := Reshape(tokens.Patches, patches.Dim(0), -1, patches.Dim(3))
				all = Concatenate([]*Node{InsertAxes(tokens.Class, 1), all}, 1)
				var values []*Node
				for _, w := range v.Weights() {
					values = append(values, store.GetVariable("/"+w.Path).NodeValue(images))
				}
				toward := ConstTensor(images.Graph(), sine(2, all.Shape().Dimensions...))
				return append(Gradient(ReduceAllSum(Mul(all, toward)), values...), all)
			})
			got := exec.MustCall(sine(1, 2, c.Height, c.Width, 3))
			if d := farthest(tensors.MustCopyFlatData[float32](got[len(got)-1]), c.Tokens); !(d <= 1e-4) {
				t.Errorf("%s at %d×%d: tokens are off by %.2g", c.Positions, c.Height, c.Width, d)
			}
			for i, w := range v.Weights() {
				name := strings.ReplaceAll(w.Path, "/", ".")
				gradient := transposed(tensors.MustCopyFlatData[float32](got[i]), w.Shape, true)
				largest := 1.0
				for _, x := range c.Gradients[name] {
					largest = max(largest, math.Abs(x))
				}
				if d := farthest(gradient, c.Gradients[name]); !(d <= 2e-4*largest) || len(c.Gradients[name]) == 0 {
					t.Errorf("%s at %d×%d: the gradient of %s is off by %.2g", c.Positions, c.Height, c.Width, name, d)
				}
			}
			exec.Finalize()
			if b.Name() == "xla" && c.Height == 12 {
				break // Compiling for XLA takes seconds; the other positions are another constant.
			}
		}
	})
}

func TestEveryFormHoldsTheSameWeights(t *testing.T) {
	want, _ := readTiny(t, "testdata/tiny.safetensors", "")
	for path, tolerance := range map[string]float64{"testdata/tiny-dino.pth": 0, "testdata/tiny-legacy.pth": 0, "testdata/tiny-half.pth": 2e-3} {
		im, _ := readTiny(t, path, "")
		if len(im.Matched) != len(tiny.Weights()) || len(im.Missing)+len(im.Reshaped)+len(im.Interpolated) != 0 {
			t.Errorf("%s: %s", path, im)
		}
		for name, value := range want.values {
			got := tensors.MustCopyFlatData[float32](im.values[name])
			for i, x := range tensors.MustCopyFlatData[float32](value) {
				if !(math.Abs(float64(got[i]-x)) <= tolerance*max(1, math.Abs(float64(x)))) {
					t.Fatalf("%s: %s[%d] is %v, want %v", path, name, i, got[i], x)
				}
			}
		}
		if isDINO := tolerance == 0; isDINO != (len(im.Head) == 4) {
			t.Errorf("%s: %d tensors of a head", path, len(im.Head))
		}
	}
}

// TestDescribedTransformersFit describes transformers that are larger than a file.
func TestDescribedTransformersFit(t *testing.T) {
	named, _, err := safetensors.Read("testdata/tiny.safetensors")
	if err != nil || FitsIn(named, tiny) != nil {
		t.Errorf("its own: %v, %v", err, FitsIn(named, tiny))
	}
	for name, change := range map[string]func(v *encoder.ViT){
		"blocks": func(v *encoder.ViT) { v.Depth = 1_000_000_000 }, "width": func(v *encoder.ViT) { v.Dim = 1 << 60 }, "a block": func(v *encoder.ViT) { v.Depth++ },
		"grid": func(v *encoder.ViT) { v.GridSize = 1 << 30 }, "patch": func(v *encoder.ViT) { v.PatchSize = 1 << 20 },
	} {
		v := tiny
		if change(&v); FitsIn(named, v) == nil {
			t.Errorf("another %s fits", name)
		}
	}
}

func TestBranches(t *testing.T) {
	teacher, _ := readTiny(t, "testdata/tiny-dino.pth", "teacher")
	student, _ := readTiny(t, "testdata/tiny-dino.pth", "student")
	if teacher.Prefix != "teacher.backbone." || student.Prefix != "student.module.backbone." || len(student.Head) != 4 {
		t.Errorf("prefixes %q and %q", teacher.Prefix, student.Prefix)
	}
	a, b := tensors.MustCopyFlatData[float32](teacher.values["cls_token"]), tensors.MustCopyFlatData[float32](student.values["cls_token"])
	if a[0] != 2*b[0] {
		t.Errorf("the student's %v is not half the teacher's %v", b[0], a[0])
	}
	if _, err := ReadViT("testdata/tiny-half.pth", tiny, "student"); err == nil || !strings.Contains(err.Error(), `"student"`) {
		t.Errorf("a student where there is none: %v", err)
	}
}

func TestReportAndResizedPositions(t *testing.T) {
	larger := tiny
	larger.GridSize, larger.Prototypes = 6, 3
	im, err := ReadViT("testdata/tiny-dino.pth", larger, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(im.Interpolated) != 1 || len(im.Missing) != 11 || len(im.Unused) == 0 {
		t.Error(im)
	}
	for _, part := range []string{"tiny from keys teacher.backbone.*", "interpolated     1  teacher.backbone.pos_embed from 4×4 to 6×6", "unused"} {
		if !strings.Contains(im.String(), part) {
			t.Errorf("no %q in\n%s", part, im)
		}
	}
}

func TestExportReturnsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "exported.safetensors")
	_, store := readTiny(t, "testdata/tiny-dino.pth", "")
	if err := Export(path, Timm, store, "/", tiny, nil, map[string]string{"made by": "test"}); err != nil {
		t.Fatal(err)
	}
	got, _, err := safetensors.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := safetensors.Read("testdata/tiny.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("%d tensors, want %d", len(got), len(want))
	}
	for name, value := range want {
		if got[name] == nil || !got[name].Equal(value) {
			t.Errorf("%s is not what timm wrote", name)
		}
	}
	if err := Export(path, Timm, model.NewStore(), "/", tiny, nil, nil); err == nil || !strings.Contains(err.Error(), "/cls_token") {
		t.Errorf("an empty store: %v", err)
	}
}
