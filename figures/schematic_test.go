package figures

import (
	"image"
	"strings"
	"testing"
)

func TestSchematic(t *testing.T) {
	pixels := image.NewRGBA(image.Rect(0, 0, 4, 4))
	f := Schematic{
		Title: "A method", Columns: 3, Rows: 2, Kinds: []string{"branch", "loss"},
		Boxes: []SchematicBox{
			{Title: "view", Pictures: []image.Image{pixels, pixels}, Lines: []string{"48×48 pixels"}},
			{Row: 1, Column: 1, Columns: 2, Kind: 1, Title: "loss", Lines: []string{"one, two", "L 0.5"}},
			{Column: 2, Title: "head"},
		},
		Arrows: []SchematicArrow{{From: 0, To: 2}, {From: 2, To: 1, Dashed: true}, {From: 1, To: 0}},
	}
	svg, _ := picture(t, f)
	for _, text := range []string{"A method", "48×48 pixels", "branch", "L 0.5"} {
		if !strings.Contains(svg, text) {
			t.Errorf("%q is not drawn", text)
		}
	}
	if csv := f.CSV(); csv != "box,line\nview,48×48 pixels\nloss,\"one, two\"\nloss,L 0.5\n" {
		t.Errorf("%q", csv)
	}
	for want, bad := range map[string]Schematic{
		"no boxes":                            {},
		"an arrow from box 0 to 5 of 3":       {Columns: 3, Rows: 2, Boxes: f.Boxes, Arrows: []SchematicArrow{{To: 5}}},
		`box 1, "loss", lies outside the gri`: {Columns: 2, Rows: 2, Boxes: f.Boxes},
	} {
		if _, _, err := bad.Render(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCurvesOf(t *testing.T) {
	f := CurvesOf("x", "y", []string{"twice", "half"}, []float64{1, 2}, func(x float64) []float64 { return []float64{2 * x, x / 2} })
	if csv := f.CSV(); csv != "series,x,y\ntwice,1,2\ntwice,2,4\nhalf,1,0.5\nhalf,2,1\n" {
		t.Errorf("%q", csv)
	}
}
