package maintable

import (
	"slices"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// TestDenseMeasures measures a random encoder on drawn scenes and videos.
func TestDenseMeasures(t *testing.T) {
	vit, store, err := evaluation.RandomViT("vit-tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := evaluation.NewEncoder(testbackend.Soonest(t), vit, store, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	linear := evaluation.DefaultSegmentationProbe()
	c := Dense{linear, evaluation.FCNProbe{SegmentationProbe: linear}, evaluation.DefaultLabelPropagation()}
	for _, p := range []*evaluation.SegmentationProbe{&c.Linear, &c.FCN.SegmentationProbe} {
		p.CropSize, p.TestSize, p.Batch, p.Steps = 16, 32, 2, 2
	}
	c.FCN.Width, c.Video.ShortSide = 4, 64
	var d Data
	for column, m := range map[string]evaluation.Evaluation{"COCOStuff-27 linear": c.Linear, "COCOStuff-27 FCN": c.FCN, "DAVIS J&F": c.Video} {
		data, err := m.Open(evaluation.Source{Dataset: evaluation.Synthetic, Images: 4, Size: 64, Frames: 3})
		if err != nil {
			t.Fatal(err)
		}
		d.dense = append(d.dense, denseMeasure(column, m, data, ""))
	}
	numbers, err := recipe.MeasureAll(t.Context(), e, d.Measures(Config{}))
	if err != nil || len(numbers) != 3 {
		t.Fatalf("%d numbers, %v", len(numbers), err)
	}
	for _, n := range numbers {
		if !slices.Contains(DenseColumns, n.Column) || n.Value < 0 || n.Value > 100 || n.Protocol == "" || n.Metric == "" {
			t.Errorf("%+v", n)
		}
	}
	var warned []string
	if _, err := c.open(study.Options{Data: t.TempDir(), Warn: func(line string) { warned = append(warned, line) }}, ""); err != nil || len(warned) != 9 {
		t.Errorf("without datasets: %q, %v", warned, err)
	}
}
