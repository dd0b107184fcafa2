package features

import (
	"testing"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/views"
)

func TestViewPairs(t *testing.T) {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	recipes := []NamedRecipe{{"all", views.Default()}, {"none", views.Recipe{Crop: views.NoCrop}}}
	sheet, err := ViewPairs(b, synthetic.Scenes(2, 32, 1).Images, 1, 2, 3, recipes)
	if err != nil {
		t.Fatal(err)
	}
	if len(sheet.Images) != 2 || len(sheet.Images[0]) != 5 || len(sheet.ColumnLabels) != 5 || sheet.RowLabels[1] != "none" {
		t.Errorf("%d rows of %d pictures, labels %q and %q", len(sheet.Images), len(sheet.Images[0]), sheet.RowLabels, sheet.ColumnLabels)
	}
	save(t, "view-pairs", sheet)
}
