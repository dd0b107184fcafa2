package features

import (
	"context"
	"image"
	"image/color"
	"os"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
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
	dots, pictures, err := e.Draw(context.Background(), randomEncoder(t, "vit-16x1x2p8"), synthetic.Segmentation(20, 64, 2))
	if err != nil {
		t.Fatal(err)
	}
	if len(dots.X) != 120 || dots.Pictures != nil || len(pictures.Pictures) != 120 || dots.Title != pictures.Title {
		t.Errorf("%d dots, %d pictures, titles %q and %q", len(dots.X), len(pictures.Pictures), dots.Title, pictures.Title)
	}
	e.Sample.Images, e.Perplexity = 3, 30
	few, _, err := e.Draw(context.Background(), randomEncoder(t, "vit-16x1x2p8"), synthetic.Segmentation(20, 64, 2))
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
