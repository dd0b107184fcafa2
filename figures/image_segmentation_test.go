package figures

import (
	"image/color"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
)

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
		if !is(c.one)(truth.At(0, 0)) || !is(ClassColour(IgnoredClass))(truth.At(right, 0)) {
			t.Errorf("the truth has colours %v and %v", truth.At(0, 0), truth.At(right, 0))
		}
		if len(sheet.Legend) != 3 || !is(c.one)(sheet.Legend[1].Colour) || sheet.Legend[1].Name != "car" || sheet.Legend[2].Name != "ignored" {
			t.Errorf("legend %v", sheet.Legend)
		}
	}
}
