package features

import (
	"context"
	"image"
	"image/color"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/views"
)

// randomEncoder is an extractor with random weights.
func randomEncoder(t *testing.T, name string) *evaluation.FeatureExtractor {
	t.Helper()
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Finalize)
	v, store, err := evaluation.RandomViT(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Finalize)
	frozen, err := evaluation.NewFeatureExtractor(b, v, store, "/", 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(frozen.Close)
	return frozen
}

// save renders figures, and keeps them in $SEMCON_TEST_FIGURES to be looked at.
func save(t *testing.T, name string, figure figures.Figure) {
	t.Helper()
	dir := os.Getenv("SEMCON_TEST_FIGURES")
	if dir == "" {
		dir = t.TempDir()
	}
	if err := figures.SaveFigure(dir, name, figure); err != nil {
		t.Error(err)
	}
}

func TestPatchEmbedding(t *testing.T) {
	e := PatchEmbedding{Sample: evaluation.PatchSample{Images: 12, PerImage: 10, Size: 64}, Perplexity: 12, Seed: 1}
	dots, pictures, err := e.Draw(context.Background(), randomEncoder(t, "vit-16x1x2p8"), synthetic.Scenes(20, 64, 2).Segmentation())
	if err != nil {
		t.Fatal(err)
	}
	if len(dots.X) != 120 || dots.Pictures != nil || len(pictures.Pictures) != 120 || dots.Title != pictures.Title {
		t.Errorf("%d dots, %d pictures, titles %q and %q", len(dots.X), len(pictures.Pictures), dots.Title, pictures.Title)
	}
	e.Sample.Images, e.Perplexity = 3, 30
	few, _, err := e.Draw(context.Background(), randomEncoder(t, "vit-16x1x2p8"), synthetic.Scenes(20, 64, 2).Segmentation())
	if err != nil || !strings.Contains(few.Title, "30 patches") || !strings.Contains(few.Title, "perplexity 9,") {
		t.Errorf("of few patches: title %q, error %v, want a third of them as perplexity", few.Title, err)
	}
	save(t, "tsne", dots)
	save(t, "tsne-patches", pictures)
}

// TestExpandedPatches: the surroundings are five patches wide, and within the image at its edges.
func TestExpandedPatches(t *testing.T) {
	shown := image.NewRGBA(image.Rect(0, 0, 10*pictureSide, 10*pictureSide))
	for y := range shown.Rect.Dy() {
		for x := range shown.Rect.Dx() {
			shown.SetRGBA(x, y, color.RGBA{uint8(25 * (x / pictureSide)), uint8(25 * (y / pictureSide)), 0, 255})
		}
	}
	for _, c := range []struct{ row, column, middleX, middleY int }{{5, 5, 5, 5}, {0, 9, 7, 2}, {9, 0, 2, 7}} {
		got := expanded(shown, evaluation.SampledPatch{Row: c.row, Column: c.column}, 10).(*image.RGBA)
		middle := got.RGBAAt(pictureSide/2, pictureSide/2)
		if int(middle.R)/25 != c.middleX || int(middle.G)/25 != c.middleY {
			t.Errorf("patch %d, %d: the middle is of place %d, %d, want %d, %d", c.row, c.column, middle.G/25, middle.R/25, c.middleY, c.middleX)
		}
	}
}

func TestMatchesOfImagesOfAClass(t *testing.T) {
	m := SparseMatches{Size: 64, Pairs: 4, Threshold: 0.3, Most: 12}
	set := synthetic.Scenes(10, 64, 2).Segmentation()
	sheet, err := m.OfClass(context.Background(), randomEncoder(t, "vit-16x1x2p8"), set)
	if err != nil || len(sheet.Pairs) != 4 {
		t.Fatalf("%d pairs, %v", len(sheet.Pairs), err)
	}
	agreeing := 0
	for i, pair := range sheet.Pairs {
		if len(pair.Lines) == 0 || len(pair.Lines) > 12 || pair.Label != set.Classes[i+1] {
			t.Errorf("pair %d, %q, has %d lines", i, pair.Label, len(pair.Lines))
		}
		for _, line := range pair.Lines {
			if line.Kind == agrees {
				agreeing++
			}
		}
	}
	if agreeing == 0 {
		t.Error("no line agrees")
	}
	save(t, "matches-class", sheet)
	one := datasets.NewSegmentation("one", set.Classes, "", 1, set.Read)
	if _, err := m.OfClass(context.Background(), randomEncoder(t, "vit-16x1x2p8"), one); err == nil {
		t.Error("one image makes pairs")
	}
}

// TestSalientMatchesAreSpreadOut: key points are some of the mutual nearest patches, at most one a cluster, and not the most similar ones.
func TestSalientMatchesAreSpreadOut(t *testing.T) {
	set := synthetic.Scenes(10, 64, 2).Segmentation()
	all := SparseMatches{Size: 64, Pairs: 3, Threshold: 0.3}
	some := SparseMatches{Size: 64, Pairs: 3, Threshold: 0.3, Most: 4, Salient: true}
	e := randomEncoder(t, "vit-16x1x2p8")
	of, err := all.OfClass(t.Context(), e, set)
	chosen, errOfChosen := some.OfClass(t.Context(), e, set)
	if err != nil || errOfChosen != nil || len(chosen.Pairs) != 3 || !strings.HasPrefix(chosen.Title, "Key points") {
		t.Fatal(err, errOfChosen)
	}
	fewer := false
	for i, pair := range chosen.Pairs {
		if len(pair.Lines) == 0 || len(pair.Lines) > 4 {
			t.Errorf("pair %d has %d lines", i, len(pair.Lines))
		}
		for _, line := range pair.Lines {
			if !slices.Contains(of.Pairs[i].Lines, line) {
				t.Errorf("pair %d: %+v are no mutual neighbours", i, line)
			}
		}
		fewer = fewer || !slices.Equal(pair.Lines, of.Pairs[i].Lines[:len(pair.Lines)])
	}
	if !fewer {
		t.Error("the key points are the most similar pairs")
	}
}

func TestMatchesOfViews(t *testing.T) {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	crops := views.DefaultMultiCrop()
	crops.Global = views.Recipe{Crop: views.IndependentCrop, MinScale: 0.5, MaxScale: 1, MinAspect: 0.75, MaxAspect: 4.0 / 3, Flip: true, FlipProbability: 0.5}
	m := SparseMatches{Size: 64, Pairs: 4, Threshold: 0.5}
	sheet, err := m.OfViews(b, randomEncoder(t, "vit-16x1x2p8"), synthetic.Scenes(4, 64, 2).Images, crops, 3)
	if err != nil || len(sheet.Pairs) != 4 {
		t.Fatalf("%d pairs, %v", len(sheet.Pairs), err)
	}
	for i, pair := range sheet.Pairs {
		if len(pair.Lines) == 0 {
			t.Errorf("pair %d has no lines", i)
		}
	}
	save(t, "matches-views", sheet)
}

// TestAgreementOfViewsKnowsBoxesAndFlips: a view and its mirrored twin of half the image, whose features are the same at the same place of the image.
func TestAgreementOfViewsKnowsBoxesAndFlips(t *testing.T) {
	frozen := randomEncoder(t, "vit-16x1x2p8")
	m := SparseMatches{Size: 32, Threshold: 0.999999}
	pixels := make([]float32, 32*32*3)
	for i := range pixels {
		pixels[i] = float32(math.Mod(float64(i*i)*0.37, 1))
	}
	for _, c := range []struct {
		left  float32 // Of the second view's box, whose patches are 4 pixels wide; the first view's box has it at 8.
		flips []float32
		kind  int
	}{{8, []float32{0, 0}, agrees}, {8, []float32{1, 1}, agrees}, {8, []float32{0, 1}, differs}, {10, []float32{0, 0}, agrees}, {12, []float32{0, 0}, differs}} {
		pair, err := m.pairOfViews(frozen, pairOfViews{pixels: slices.Concat(pixels, pixels), boxes: []float32{4, 8, 16, 16, 4, c.left, 16, 16}, flips: c.flips})
		if err != nil || len(pair.Lines) != 16 {
			t.Fatalf("%d lines, %v", len(pair.Lines), err)
		}
		for _, line := range pair.Lines {
			if line.Kind != c.kind || line.FromX != line.ToX || line.FromY != line.ToY {
				t.Errorf("left %g, flips %v: %+v", c.left, c.flips, line)
			}
		}
	}
}

func TestMatchesRefuseWhatTheyCannotDraw(t *testing.T) {
	picture := image.NewUniform(color.Black)
	bad := figures.Matches{Kinds: []string{"a"}, Pairs: []figures.MatchedPair{{First: picture, Second: picture, Lines: []figures.MatchLine{{Kind: 1}}}}}
	for want, f := range map[string]figures.Matches{"no pairs": {}, "pair 0: a line has kind 1 of 1": bad} {
		if _, _, err := figures.Render(f); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
