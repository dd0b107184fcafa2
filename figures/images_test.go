package figures

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"slices"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/rle"
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
	}{{0, 0, 0}, {2, 0, 2}, {0, 1, datasets.Ignore}, {2, 1, 30}} {
		if got := picture.At(c.x, c.y); got != ClassColour(c.class) {
			t.Errorf("(%d, %d) is %v", c.x, c.y, got)
		}
	}
}

// TestLegendTakesRoomBelowTheSheet has enough names for several lines.
func TestLegendTakesRoomBelowTheSheet(t *testing.T) {
	grid := ImageGrid{Images: [][]image.Image{{ClassMap(make([]uint8, 3000), 60)}}, Scale: 3}
	height := func(g ImageGrid) int {
		_, raster, err := Render(g)
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
	lines := legendRows(slices.Repeat([]legendEntry{{name: "a class with a name"}}, 3), 150)
	if len(lines) != 3 || len(lines[0]) != 1 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestDrawObjects(t *testing.T) {
	inside := make([]bool, 8*10)
	inside[3*10+4] = true
	mask, err := rle.Encode(8, 10, inside)
	if err != nil {
		t.Fatal(err)
	}
	ground := image.NewRGBA(image.Rect(0, 0, 10, 8))
	front, behind := ClassColour(1), ClassColour(2)
	drawn := DrawObjects(ground, []Object{{Box: [4]float64{2, 1, 6, 5}, Mask: mask}, {Box: [4]float64{2, 1, 12, 7}, Class: 1}}, 2)
	for at, want := range map[image.Point]color.RGBA{
		{4, 2}:   front,                                  // The corner of both boxes, where the first one is on top.
		{12, 10}: front,                                  // The other corner of the first one.
		{19, 14}: behind,                                 // A box that sticks out ends with the image.
		{8, 6}:   mixed(color.RGBA{A: 255}, front, 1, 1), // Inside the mask.
		{10, 8}:  {},                                     // Inside the box alone.
	} {
		if got := drawn.RGBAAt(at.X, at.Y); got != want {
			t.Errorf("at %v: %v, want %v", at, got, want)
		}
	}
	// A label beyond the border is moved into the picture.
	labelled := DrawObjects(image.NewRGBA(image.Rect(0, 0, 60, 30)), []Object{{Box: [4]float64{55, 28, 59, 29}, Label: "cat 0.9"}}, 1)
	if got := labelled.RGBAAt(59, 17); got != front {
		t.Errorf("the label's ground is %v, want %v", got, front)
	}
	// What has no size of its own, and no mask of the image's size, is no failure.
	DrawObjects(ground, []Object{{Mask: rle.Mask{}}, {Box: [4]float64{-5, -5, -1, -1}, Label: "x"}}, 1)
}

// TestSegmentationGridHasTheDatasetsColours: maps and legend have the palette that is given, or else [ClassColour]; ignored pixels are grey in both.
func TestSegmentationGridHasTheDatasetsColours(t *testing.T) {
	a := &datasets.SegmentedImage{Height: 1, Width: 2, Pixels: make([]uint8, 6), Mask: []uint8{1, datasets.Ignore}}
	palette := make(color.Palette, 256)
	for i := range palette {
		palette[i] = color.RGBA{uint8(i), 7, 9, 255}
	}
	for _, c := range []struct {
		colours color.Palette
		one     color.Color
	}{{nil, ClassColour(1)}, {palette, palette[1]}} {
		sheet := SegmentationGrid("", []Segmented{{Image: a, Predicted: []uint8{1, 0}, Colours: c.colours}}, []string{"sky", "car"})
		truth := sheet.Images[1][0]
		right := truth.Bounds().Dx() - 1
		if !hasColour(c.one)(truth.At(0, 0)) || !hasColour(ClassColour(datasets.Ignore))(truth.At(right, 0)) {
			t.Errorf("the truth has colours %v and %v", truth.At(0, 0), truth.At(right, 0))
		}
		if len(sheet.Legend) != 3 || !hasColour(c.one)(sheet.Legend[1].Colour) || sheet.Legend[1].Name != "car" || sheet.Legend[2].Name != "ignored" {
			t.Errorf("legend %v", sheet.Legend)
		}
	}
}

// TestLabelledNamesStandBelow has names that need a second row.
func TestLabelledNamesStandBelow(t *testing.T) {
	red, blue := color.RGBA{200, 0, 0, 255}, color.RGBA{0, 0, 200, 255}
	drawn := Labelled(image.NewRGBA(image.Rect(0, 0, 40, 20)), []string{"cat", "dog"}, []color.RGBA{red, blue})
	if size := drawn.Rect.Size(); size != image.Pt(40, 46) || drawn.RGBAAt(0, 20) != red || drawn.RGBAAt(0, 33) != blue || drawn.RGBAAt(39, 45).A != 0 {
		t.Errorf("size %v, colours %v and %v", size, drawn.RGBAAt(0, 20), drawn.RGBAAt(0, 33))
	}
}
