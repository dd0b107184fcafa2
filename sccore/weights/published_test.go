package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
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
	var lengths struct{ Gradients map[string]float64 }
	if err := errors.Join(json.Unmarshal(content, &lengths), json.Unmarshal(content, &cases)); err != nil {
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

		// Trained weights have norms and activations that random ones do not have, so that their gradients are compared, too.
		store := model.NewStore()
		if err := im.Apply(store, "/"); err != nil {
			t.Fatal(err)
		}
		var names []string
		gradients := model.MustNewExec(b, store, func(scope *model.Scope, images, probe *Node) []*Node {
			loss := ReduceAllSum(Mul(probe, im.ViT.Tokens(scope, images).Patches))
			var values []*Node
			names = nil
			for variable := range store.IterVariables() {
				names, values = append(names, strings.ReplaceAll(variable.Path()[1:], "/", ".")), append(values, variable.NodeValue(images))
			}
			var lengths []*Node
			for _, gradient := range Gradient(loss, values...) {
				lengths = append(lengths, L2Norm(ConvertDType(gradient, dtypes.Float64))) // A sum of float32 would round.
			}
			return lengths
		})
		defer gradients.Finalize()
		for i, length := range gradients.MustCall(sine(1, 1, 112, 112, 3), sine(2, 1, 8, 8, 384)) {
			got, want := length.Value().(float64), lengths.Gradients[names[i]]
			if !(math.Abs(got-want) <= 1e-4*want) || want == 0 || len(names) != len(lengths.Gradients) {
				t.Errorf("the gradient of %s has length %g, PyTorch's %g", names[i], got, want)
			}
		}
	})
}

// TestVITS14SaysWhatIsMissing: without Python's packages the script ends with one line.
func TestVITS14SaysWhatIsMissing(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	said, err := exec.Command(python, "-I", "-S", "../../tools/vits14.py", t.TempDir()).CombinedOutput()
	if want := "No module named 'numpy': python3 -m pip install onnx numpy\n"; err == nil || string(said) != want {
		t.Errorf("%v: %q, want %q", err, said, want)
	}
}
