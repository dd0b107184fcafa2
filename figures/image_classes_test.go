package figures

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"
)

func TestClassColoursDiffer(t *testing.T) {
	seen := map[color.RGBA]uint8{}
	for class := range 256 {
		c := ClassColour(uint8(class))
		if other, taken := seen[c]; taken {
			t.Errorf("classes %d and %d share %v", other, class, c)
		}
		seen[c] = uint8(class)
	}
}

func TestClassMapPaintsRows(t *testing.T) {
	picture := ClassMap([]uint8{0, 1, 2, 255, 7, 30}, 3)
	if picture.Bounds() != image.Rect(0, 0, 3, 2) {
		t.Fatal(picture.Bounds())
	}
	for _, c := range []struct {
		x, y  int
		class uint8
	}{{0, 0, 0}, {2, 0, 2}, {0, 1, IgnoredClass}, {2, 1, 30}} {
		if got := picture.At(c.x, c.y); got != ClassColour(c.class) {
			t.Errorf("(%d, %d) is %v", c.x, c.y, got)
		}
	}
}

// TestLegendTakesRoomBelowTheSheet has enough names for several lines.
func TestLegendTakesRoomBelowTheSheet(t *testing.T) {
	grid := ImageGrid{Images: [][]image.Image{{ClassMap(make([]uint8, 3000), 60)}}, Scale: 3}
	height := func(g ImageGrid) int {
		_, raster, err := g.Render()
		if err != nil {
			t.Fatal(err)
		}
		config, err := png.DecodeConfig(bytes.NewReader(raster))
		if err != nil {
			t.Fatal(err)
		}
		return config.Height
	}
	bare := height(grid)
	for range 3 {
		grid.Legend = append(grid.Legend, ColourName{ClassColour(3), "a class with a name"})
	}
	picture(t, grid)
	if with := height(grid); with < bare+30 {
		t.Errorf("%d pixels high with a legend of three lines, %d without", with, bare)
	}
	lines := grid.legendLines(150, func(name string) int { return 7 * len(name) })
	if len(lines) != 3 || len(lines[0]) != 1 {
		t.Errorf("%d lines", len(lines))
	}
}
