package pretrain

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// TestPretrainPictures draws what a smoke run left.
func TestPretrainPictures(t *testing.T) {
	b := testbackend.Go(t)
	out := t.TempDir()
	if err := Study.Run(t.Context(), b, study.Options{Profile: study.Smoke, Out: out, Set: []string{"second.steps=4"}}); err != nil {
		t.Fatal(err)
	}
	results, err := Study.Load(study.Options{Out: out, Profile: study.Smoke})
	if err != nil {
		t.Fatal(err)
	}
	file := func(stage, branch string) features.NamedEncoder {
		path, err := Encoder(results, out, 0, stage, branch)
		if err != nil {
			t.Fatal(err)
		}
		return features.NamedEncoder{Name: stage + ", " + branch, File: path}
	}
	viewer, err := NewViewer(b, study.Smoke, "", 4)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(name string, figure figures.Figure) { // In $SEMCON_TEST_FIGURES, to be looked at.
		if err := figures.SaveFigure(cmp.Or(os.Getenv("SEMCON_TEST_FIGURES"), t.TempDir()), name, figure); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		draw          func() (figures.ImageGrid, error)
		rows, columns int
	}{
		"views": {func() (figures.ImageGrid, error) { return viewer.Views(1) }, 4, 3},
		"components": {func() (figures.ImageGrid, error) {
			return viewer.Components(features.NamedEncoder{Name: "random"}, file("first", "best"), file("second", "target"))
		}, 4, 4},
		"correspondences": {func() (figures.ImageGrid, error) {
			return viewer.Correspondences(file("second", "online"), file("second", "target"))
		}, 3, 4},
		"attention": {func() (figures.ImageGrid, error) { return viewer.Attention(file("second", "target").File) }, 7, 4},
		"no filter": {func() (figures.ImageGrid, error) { return viewer.Attention(file("first", "target").File) }, 4, 4},
	} {
		sheet, err := c.draw()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(sheet.Images) != c.rows || len(sheet.Images[0]) != c.columns {
			t.Errorf("%s: %d rows of %d", name, len(sheet.Images), len(sheet.Images[0]))
		}
		for _, row := range sheet.Images {
			if one := colours(row[len(row)-1]); one < 2 {
				t.Errorf("%s: the last picture of a row has one colour only", name)
			}
		}
		keep(name, sheet)
	}
	curves, err := BothStages(results, out, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(curves) != 4 || len(curves[0].Series) != 5 || len(curves[1].Series) != 2 || len(curves[2].Series) != 2 || len(curves[3].Series) != 2 {
		t.Errorf("curves %+v", curves)
	}
	if alignment := curves[0].Series[0]; alignment.X[len(alignment.X)-1] != 12 {
		t.Errorf("the last step of stages of 8 and 4 is %v", alignment.X)
	}
	keep("curves", curves)
	step, err := Intermediates(t.Context(), results, b, out, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	framework, err := features.Framework(step)
	if err != nil {
		t.Fatal(err)
	}
	if len(framework.Boxes) != 12 || !strings.Contains(framework.Title, "Step 5 of the method") {
		t.Errorf("%d boxes, title %q", len(framework.Boxes), framework.Title)
	}
	keep("framework", framework)
	step.From = sccore.FromBackbone
	backbone, err := features.Framework(step)
	if q := backbone.Boxes[7]; err != nil || len(backbone.Arrows) != len(framework.Arrows)-2 || q.Lines[len(q.Lines)-1] != "of the encoder's patches" {
		t.Errorf("correspondences of the backbone: %d arrows, and q says %q, %v", len(backbone.Arrows), q.Lines, err)
	}
	keep("framework of the backbone", backbone)
	if trained, name := Trained(out); trained != file("second", "online").File || name != "pretrain, smoke profile" {
		t.Errorf("trained is %s in %s", name, trained)
	}
	if trained, name := Trained(t.TempDir()); trained != "" || name != "" {
		t.Errorf("without a run, %s in %s", name, trained)
	}
	if _, err := Encoder(results, out, 5, "first", "target"); err == nil || !strings.Contains(err.Error(), "seed 5") {
		t.Errorf("a run that there is not: %v", err)
	}
	if _, err := viewer.Components(features.NamedEncoder{Name: "none", File: filepath.Join(out, "none.safetensors")}); err == nil || !strings.Contains(err.Error(), "none.safetensors") {
		t.Errorf("an encoder that there is not: %v", err)
	}
}

// TestPretrainCurvesShowWhatThereIs has a curve with labels and one without.
func TestPretrainCurvesShowWhatThereIs(t *testing.T) {
	curve := []sccore.StepMetrics{
		{Step: 1, Total: 3},
		{Step: 2, Total: 2, Patches: &metrics.Spread{Rank: 5}, Class: &metrics.Spread{}, Classes: &metrics.ClassSpread{Within: 0.4, Between: 0.2}},
	}
	curves := Curves("run", recipe.Points(curve))
	if len(curves) != 3 || len(curves[0].Series[0].X) != 2 || len(curves[1].Series[0].X) != 1 || len(curves[2].Series) != 2 {
		t.Fatalf("curves %+v", curves)
	}
	if within, between := curves[2].Series[0], curves[2].Series[1]; within.X[0] != 2 || within.Y[0] != 0.4 || between.Y[0] != 0.2 {
		t.Errorf("variances %+v", curves[2])
	}
	curve[1].Classes = nil
	if curves := Curves("run", recipe.Points(curve)); len(curves) != 2 {
		t.Errorf("curves %+v without labels", curves)
	}
}

// colours counts the colours of a picture.
func colours(picture image.Image) int {
	found := map[[4]uint32]bool{}
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			r, g, b, a := picture.At(x, y).RGBA()
			found[[4]uint32{r, g, b, a}] = true
		}
	}
	return len(found)
}

// writeImages writes n objects and n scenes in the layouts of ImageNet and COCO below dir.
func writeImages(t *testing.T, dir string, n int) {
	t.Helper()
	for folder, set := range map[string]*synthetic.Set{
		"imagenet/train/n01440764": synthetic.Objects(n, 40, 1), "coco/train2017": synthetic.Scenes(n, 40, 2),
	} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range set.Len() {
			var encoded bytes.Buffer
			if err := png.Encode(&encoded, set.Image(i)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, folder, fmt.Sprintf("%d.png", i)), encoded.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPretrainPicturesOfImages draws what a run on images without labels left.
func TestPretrainPicturesOfImages(t *testing.T) {
	b := testbackend.Go(t)
	out, data, kept := t.TempDir(), t.TempDir(), t.TempDir()
	writeImages(t, data, 10)
	if err := Study.Run(t.Context(), b, study.Options{Profile: study.Smoke, Data: data, Cache: kept, Out: out, Set: []string{"first.steps=4", "second.steps=4"}}); err != nil {
		t.Fatal(err)
	}
	if folders, err := os.ReadDir(kept); err != nil || len(folders) == 0 {
		t.Errorf("the cache holds %d folders, %v", len(folders), err)
	}
	refused := study.Options{Profile: study.Smoke, Cache: kept, Out: out}
	if err := Study.Run(t.Context(), b, refused); err == nil || !strings.Contains(err.Error(), "only with --data") {
		t.Errorf("a cache of generated images: %v", err)
	}
	results, err := Study.Load(study.Options{Out: out, Profile: study.Smoke})
	if err != nil {
		t.Fatal(err)
	}
	file, err := Encoder(results, out, 0, "second", "target")
	if err != nil {
		t.Fatal(err)
	}
	viewer, err := NewViewer(b, study.Smoke, data, 3)
	if err != nil {
		t.Fatal(err)
	}
	if sheet, err := viewer.Components(features.NamedEncoder{Name: "random"}, features.NamedEncoder{Name: "trained", File: file}); err != nil || len(sheet.Images) != 3 {
		t.Errorf("%d rows: %v", len(sheet.Images), err)
	}
	if curves, err := BothStages(results, out, 0); err != nil || len(curves) != 3 {
		t.Errorf("%d curves: %v", len(curves), err)
	}
	if _, err := Encoder(results, out, 1, "second", "target"); err == nil || !strings.Contains(err.Error(), "seed 1") {
		t.Errorf("an encoder of a seed that has not run: %v", err)
	}
}

// BenchmarkNewViewer opens the scenes that a cell of notebook 03 shows, in the default profile. Only those are drawn.
func BenchmarkNewViewer(b *testing.B) {
	backend := testbackend.Go(b)
	for b.Loop() {
		if _, err := NewViewer(backend, study.Quick, "", 3); err != nil {
			b.Fatal(err)
		}
	}
}
