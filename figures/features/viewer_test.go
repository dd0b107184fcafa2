package features

import (
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

func TestPoints(t *testing.T) {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	config := sccore.Default()
	config.Encoder = "vit-16x1x2p8"
	viewer, err := NewViewer(b, config, 64, synthetic.Scenes(2, 64, 1).Images, 2)
	if err != nil {
		t.Fatal(err)
	}
	sheet, err := viewer.Points(NamedEncoder{}, Point{0.5, 0.25}, Point{0, 0.99})
	if err != nil {
		t.Fatal(err)
	}
	if len(sheet.Images) != 2 || len(sheet.Images[0]) != 5 || len(sheet.ColumnLabels) != 5 || sheet.RowLabels[0] != "0.5, 0.25" {
		t.Errorf("%d rows of %d pictures, labels %q and %q", len(sheet.Images), len(sheet.Images[0]), sheet.RowLabels, sheet.ColumnLabels)
	}
	// A patch is like itself: the map of the first scene is palest where the point lies, in row 2 and column 4 of 8.
	heat := sheet.Images[0][1]
	side := heat.Bounds().Dx() / 8
	pale := func(row, column int) uint32 {
		red, green, blue, _ := heat.At(column*side+side/2, row*side+side/2).RGBA()
		return red + green + blue
	}
	for place := range 64 {
		if pale(place/8, place%8) > pale(2, 4) {
			t.Errorf("patch %d is more like the point's than itself", place)
		}
	}
	save(t, "points", sheet)
	for _, outside := range []Point{{1, 0}, {0, -0.1}} {
		if _, err := viewer.Points(NamedEncoder{}, outside); err == nil || !strings.Contains(err.Error(), "want shares of the image") {
			t.Errorf("%v: %v", outside, err)
		}
	}
}
