package features

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
)

// TestAttentionMaps draws maps of an encoder with a filter and of one without.
func TestAttentionMaps(t *testing.T) {
	scenes := synthetic.Scenes(4, 32, 1)
	v, store, err := evaluation.RandomViT("vit-16x1x4p8", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Finalize()
	v.Prototypes = 3
	random := rand.New(rand.NewPCG(1, 1))
	for _, w := range v.Weights() {
		if store.GetVariable("/"+w.Path) != nil {
			continue
		}
		values := make([]float32, w.Size()) // The filter's.
		for i := range values {
			values[i] = float32(random.NormFloat64())
		}
		if _, err := store.CreateVariable("/"+w.Path, tensors.FromFlatDataAndDimensions(values, w.Shape...)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	frozen, err := evaluation.NewFeatureExtractor(b, v, store, "/", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	var images []evaluation.Image
	for im, err := range evaluation.ImagesOf(scenes.Images, frozen.Preprocessing, 32, 4, nil) {
		if err != nil {
			t.Fatal(err)
		}
		im.Name = "a/folder/with a long name.png"
		images = append(images, im)
	}
	sheet, err := AttentionMaps{Heads: 3, Filter: 3}.Draw(frozen, images)
	if err != nil {
		t.Fatal(err)
	}
	if len(sheet.Images) != 7 || len(sheet.Images[0]) != 4 || sheet.RowLabels[3] != "[CLS], head 3" || sheet.ColumnLabels[0] != "with a long na…" {
		t.Errorf("%d rows, labels %q and %q", len(sheet.Images), sheet.RowLabels, sheet.ColumnLabels)
	}
	if want := "Attention of [CLS] by head, the first 3 of 4: pale is more\nand of patches to the filter's prototypes, the 3 of 12 maps that vary most and repeat each other least"; sheet.Title != want {
		t.Errorf("title %q", sheet.Title)
	}
	save(t, "attention", sheet)
	all, err := AttentionMaps{}.Draw(frozen, images[:1])
	if err != nil || len(all.Images) != 1+4+3*4 || all.RowLabels[5] != "prototype 1, head 1" {
		t.Errorf("%d rows, %v", len(all.Images), err)
	}
	if slices.Contains(sheet.RowLabels, "prototype 1, head 1") && slices.Contains(sheet.RowLabels, "prototype 1, head 2") && slices.Contains(sheet.RowLabels, "prototype 1, head 3") {
		t.Error("the first maps are shown, not those that vary")
	}
	without, err := AttentionMaps{Heads: 9}.Draw(randomEncoder(t, "vit-16x1x2p8"), images)
	if err != nil || len(without.Images) != 3 {
		t.Errorf("without a filter: %d rows, %v", len(without.Images), err)
	}
}

// TestChosenMapsAreNoTwins has a strong map, its twin, a constant one, a weak one elsewhere and its opposite: after the strong one come those that show other patches.
func TestChosenMapsAreNoTwins(t *testing.T) {
	maps := [][][]float64{{{0, 9, 0, 0}, {0, 0, 0, 0}}, {{0, 10, 0, 0}, {5, 5, 5, 5}}, {{0, 0, 1, 0}, {1, 1, 1, 0}}}
	all := []evaluation.Attention{{Rows: 2, Columns: 2, Filter: maps}}
	for count, want := range map[int][]int{1: {2}, 2: {2, 4}, 3: {2, 4, 5}, 6: {2, 4, 5, 0, 1, 3}, 9: {2, 4, 5, 0, 1, 3}, 0: {0, 1, 2, 3, 4, 5}} {
		if got := (AttentionMaps{Filter: count}).chosen(all, 2); !slices.Equal(got, want) {
			t.Errorf("%d maps: %v, want %v", count, got, want)
		}
	}
}
