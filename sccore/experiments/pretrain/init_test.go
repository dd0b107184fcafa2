package pretrain

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// member returns a tiny member of a family of transformers.
func member(name string) string {
	return filepath.Join("..", "..", "weights", "testdata", "families", name)
}

// TestPretrainFollowsTheFile starts from DINOv2 with registers and from DINOv3, trains a few steps, and reads what it leaves.
func TestPretrainFollowsTheFile(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"dinov2-reg.timm/model.safetensors":     "vit-16x2x2p4-grid4-reg4-ls",
		"dinov3-plus.timm/model.safetensors":    "vit-24x1x2p4-reg4-ls-swiglu96-qv-rope100-eps0.00001",
		"dinov2.transformers/model.safetensors": "vit-16x1x2p14-grid4-ls",
	} {
		t.Run(want, func(t *testing.T) {
			var warned []string
			out := t.TempDir()
			o := study.Options{
				Profile: study.Smoke, Out: out, Warn: func(line string) { warned = append(warned, line) },
				Set: []string{"init=" + member(file), "second.steps=2", "second.warmup=0", "second.views.Locals=1", "second.views.local_size=14", "probe.steps=2"},
			}
			if strings.Contains(want, "p4-") {
				o.Set[4] = "second.views.local_size=12"
			}
			if err := Study.Run(t.Context(), b, o); err != nil {
				t.Fatal(err)
			}
			if said := strings.Join(warned, "\n"); !strings.Contains(said, "second.encoder="+want) ||
				strings.Contains(want, "p14") != (strings.Contains(said, "second.canvas=28, ") && strings.Contains(said, "second.views.GlobalSize=28") && strings.Contains(said, ", size=28")) {
				t.Errorf("said %q", said)
			}
			records, err := study.Records(study.Folder(out, Name))
			if err != nil || len(records) != 8 {
				t.Fatalf("%d records, %v", len(records), err)
			}
			results, err := Study.Load(study.Options{Out: out, Profile: study.Smoke})
			if err != nil {
				t.Fatal(err)
			}
			figures, err := Study.Experiment().Figures(records, study.Smoke, study.FigureSources{Out: out})
			if err != nil || len(figures) != 1 || !strings.HasPrefix(figures[0].Caption, "The second stage of training of seed 0") {
				t.Errorf("drawn %+v, %v", figures, err)
			}
			if curves, err := BothStages(results, out, 0); err != nil || curves[0].X != "step, second stage" || !slices.Equal(curves[0].Series[0].X, []float64{2}) {
				t.Errorf("%+v, %v", curves, err)
			}
			path := recipe.EncoderFile(out, records[7], "second")
			im, err := weights.ReadViT(path, encoder.ViT{}, "")
			if err != nil {
				t.Fatal(err)
			}
			if im.ViT.Name != want || im.ViT.Prototypes != recipe.ProfileConfig(study.Smoke, false).Second.Prototypes || len(im.Missing) > 0 {
				t.Errorf("left %s", im)
			}
			start, err := weights.ReadViT(member(file), encoder.ViT{}, "")
			if err != nil {
				t.Fatal(err)
			}
			if im.ViT.Positions != start.ViT.Positions {
				t.Errorf("resizes positions as in %s, %s before", im.ViT.Positions, start.ViT.Positions)
			}
			kept, err := weights.ReadViT(recipe.EncoderFile(out, records[7], "init"), encoder.ViT{}, "")
			if err != nil {
				t.Fatal(err)
			}
			before, after := classOf(t, b, start), classOf(t, b, im)
			if got := classOf(t, b, kept); !slices.Equal(got, before) || kept.ViT.Prototypes != 0 || len(kept.Missing) > 0 {
				t.Errorf("the start that is left behind, %s, has other features than the file", kept)
			}
			moved := 0.0
			for i := range before {
				moved += float64((before[i] - after[i]) * (before[i] - after[i]))
			}
			if moved == 0 {
				t.Errorf("training moved the [CLS] token by %g", moved)
			}
		})
	}
}

// classOf returns the [CLS] feature of a gray image.
func classOf(t *testing.T, b compute.Backend, im *weights.Import) []float32 {
	t.Helper()
	store := model.NewStore()
	if err := im.Apply(store, "/"); err != nil {
		t.Fatal(err)
	}
	side := 4 * im.ViT.PatchSize
	frozen, err := evaluation.NewFeatureExtractor(b, im.ViT, store, "/", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	images := func(yield func(evaluation.Image, error) bool) {
		yield(evaluation.Image{Pixels: make([]float32, 3*side*side), Height: side, Width: side}, nil)
	}
	for f, err := range frozen.Extract(images, evaluation.Outputs{}) {
		if err != nil {
			t.Fatal(err)
		}
		return f[0].Class
	}
	return nil
}
