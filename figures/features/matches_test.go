package features

import (
	"context"
	"image"
	"image/color"
	"math"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/views"
)

func TestMatchesOfImagesOfAClass(t *testing.T) {
	m := SparseMatches{Size: 64, Pairs: 4, Threshold: 0.3, Most: 12}
	set := synthetic.Segmentation(10, 64, 2)
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
		left  float32 // Of the second view's box, whose patches are 4 pixels wide; that of the first is 8.
		flips []float32
		kind  int
	}{{8, []float32{0, 0}, agrees}, {8, []float32{1, 1}, agrees}, {8, []float32{0, 1}, differs}, {10, []float32{0, 0}, agrees}, {12, []float32{0, 0}, differs}} {
		pair, err := m.pairOfViews(frozen, [2][]float32{pixels, pixels}, []float32{4, 8, 16, 16, 4, c.left, 16, 16}, c.flips)
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
