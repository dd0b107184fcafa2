package weights

import (
	"archive/zip"
	"bytes"
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
)

// tiny is the transformer of testdata/vit.py.
var tiny = encoder.ViT{Name: "tiny", Patch: 4, Dim: 16, Depth: 2, Heads: 2, Side: 4, Positions: encoder.DINOPositions}

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
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= largest) {
			largest = d
		}
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

// TestFeaturesAgreeWithPyTorch reads files that PyTorch and timm wrote, and compares tokens and gradients with theirs.
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
			got := exec.MustExec(sine(1, 2, c.Height, c.Width, 3))
			if d := farthest(tensors.MustCopyFlatData[float32](got[len(got)-1]), c.Tokens); d > 1e-4 {
				t.Errorf("%s at %d×%d: tokens are off by %.2g", c.Positions, c.Height, c.Width, d)
			}
			for i, w := range v.Weights() {
				name := strings.ReplaceAll(w.Path, "/", ".")
				gradient := relaid(tensors.MustCopyFlatData[float32](got[i]), w.Shape, true)
				largest := 1.0
				for _, x := range c.Gradients[name] {
					largest = max(largest, math.Abs(x))
				}
				if d := farthest(gradient, c.Gradients[name]); d > 2e-4*largest || len(c.Gradients[name]) == 0 {
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
				if math.Abs(float64(got[i]-x)) > tolerance*max(1, math.Abs(float64(x))) {
					t.Fatalf("%s: %s[%d] is %v, want %v", path, name, i, got[i], x)
				}
			}
		}
		if isDINO := tolerance == 0; isDINO != (len(im.Head) == 4) {
			t.Errorf("%s: %d tensors of a head", path, len(im.Head))
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
	larger.Side, larger.Prototypes = 6, 3
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
	if err := ExportViT(path, store, "/", tiny, nil, map[string]string{"made by": "test"}); err != nil {
		t.Fatal(err)
	}
	got, _, err := ReadSafetensors(path)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := ReadSafetensors("testdata/tiny.safetensors")
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
	if err := ExportViT(path, model.NewStore(), "/", tiny, nil, nil); err == nil || !strings.Contains(err.Error(), "/cls_token") {
		t.Errorf("an empty store: %v", err)
	}
}

// archive is a PyTorch file of one pickle.
func archive(t testing.TB, pickle string, method uint16) []byte {
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	entry, err := w.CreateHeader(&zip.FileHeader{Name: "archive/data.pkl", Method: method})
	if err == nil {
		_, err = entry.Write([]byte(pickle))
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestHostileWeightsAreOneLine(t *testing.T) {
	good, err := os.ReadFile("testdata/tiny-dino.pth")
	if err != nil {
		t.Fatal(err)
	}
	legacy, err := os.ReadFile("testdata/tiny-legacy.pth")
	if err != nil {
		t.Fatal(err)
	}
	convolution, err := os.ReadFile("testdata/convolution.pth")
	if err != nil {
		t.Fatal(err)
	}
	_, store := readTiny(t, "testdata/tiny.safetensors", "")
	nan := filepath.Join(t.TempDir(), "nan.safetensors")
	store.GetVariable("/norm/bias").MustSetValue(tensors.FromFlatDataAndDimensions([]float32{15: float32(math.NaN())}, 16))
	if err := ExportViT(nan, store, "/", tiny, nil, nil); err != nil {
		t.Fatal(err)
	}
	withNaN, err := os.ReadFile(nan)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file    string
		content []byte
		part    string
	}{
		"runs a command":     {"a.pth", archive(t, "\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", zip.Store), `"os.system"`},
		"evaluates":          {"a.pth", archive(t, "\x80\x04\x8c\x08builtins\x8c\x04eval\x93.", zip.Store), `"builtins.eval"`},
		"instance opcode":    {"a.pth", archive(t, "(S'ls'\nios\nsystem\n.", zip.Store), "opcode"},
		"zip bomb":           {"a.pth", archive(t, strings.Repeat("N", 1<<24), zip.Deflate), "compressed"},
		"dictionaries":       {"a.pth", archive(t, "}q\x00X\x01\x00\x00\x00ah\x00s.", zip.Store), "too deep"},
		"no stack":           {"a.pth", archive(t, "R.", zip.Store), "damaged"},
		"long text":          {"a.pth", archive(t, "X\xff\xff\xff\x7f.", zip.Store), "32 MiB"},
		"other architecture": {"a.pth", convolution, "no vision transformer"},
		"zip cut off":        {"a.pth", good[:len(good)/2], "cut off"},
		"legacy cut off":     {"a.pth", legacy[:len(legacy)-100], "cut off"},
		"empty":              {"a.pth", nil, "too short"},
		"text":               {"a.pth", []byte("<html>not found</html>"), "neither a PyTorch"},
		"not a number":       {"a.safetensors", withNaN, "norm.bias: entry 15 is NaN"},
		"huge header":        {"a.safetensors", append([]byte{255, 255, 255, 255, 255, 255, 0, 0}, "{}"...), "header"},
		"negative shape":     {"a.safetensors", file(`{"cls_token":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4), "shape [-1]"},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(path, c.content, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := ReadViT(path, tiny, "")
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, c.part)
		}
	}
	for name, change := range map[string]func(v *encoder.ViT){
		"width":  func(v *encoder.ViT) { v.Dim = 32 },
		"blocks": func(v *encoder.ViT) { v.Depth = 3 },
		"patch":  func(v *encoder.ViT) { v.Patch = 8 },
	} {
		v := tiny
		change(&v)
		if _, err := ReadViT("testdata/tiny-dino.pth", v, ""); err == nil {
			t.Errorf("another %s was accepted", name)
		}
	}
	if _, err := ReadViT("testdata/tiny-dino.pth", encoder.ViT{Positions: encoder.DINOPositions}, ""); err == nil || !strings.Contains(err.Error(), "width 16") {
		t.Errorf("a transformer of no name: %v", err)
	}
}

func FuzzTorch(f *testing.F) {
	for _, name := range []string{"tiny-dino.pth", "tiny-legacy.pth", "convolution.pth"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add(archive(f, "}q\x00X\x01\x00\x00\x00ah\x00s.", zip.Store))
	f.Fuzz(func(t *testing.T, content []byte) {
		objects, err := openTorch(bytes.NewReader(content), int64(len(content)))
		sources := map[string]tensorSource{}
		if err == nil {
			err = flatten(sources, "", objects, 0, new(int))
		}
		if err == nil {
			_, err = importViT(sources, tiny, "")
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is not one line", err)
		}
	})
}

func FuzzUnpickle(f *testing.F) {
	f.Add([]byte("\x80\x02}q\x00(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00b]q\x01(K\x02K\x03eu."))
	f.Add([]byte("ctorch._utils\n_rebuild_tensor_v2\n((K\x01K\x02tR."))
	f.Fuzz(func(t *testing.T, content []byte) {
		small := archive(t, string(content), zip.Store)
		if _, err := openTorch(bytes.NewReader(small), int64(len(small))); err != nil && err.Error() == "" {
			t.Error("an error without a word")
		}
	})
}
