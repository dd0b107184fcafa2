package figures

import (
	"bytes"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// noise is a small image in which each pixel differs from its neighbours.
func noise(width, height, seed int) *image.RGBA {
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			picture.Set(x, y, color.RGBA{uint8(37*x + 11*seed), uint8(53*y + 7*x), uint8(101 * (x ^ y)), 255})
		}
	}
	return picture
}

// TestImageGridRepeatsPixels searches the sheet for the enlarged images: each pixel becomes a square of its colour at whole pixels.
func TestImageGridRepeatsPixels(t *testing.T) {
	a, b := noise(8, 8, 1), noise(8, 8, 2)
	grid := ImageGrid{Title: "views", RowLabels: []string{"without crop", "crop"}, ColumnLabels: []string{"image", "view 1"},
		Images: [][]image.Image{{a, b}, {nil, b.SubImage(image.Rect(2, 3, 6, 8))}}, Scale: 4}
	svg, sheet := picture(t, grid)
	contains(t, svg, ">views<", ">without crop<", ">crop<", ">image<", ">view 1<", "<image ")
	for name, want := range map[string]struct {
		picture image.Image
		count   int
	}{"a": {a, 1}, "b": {b, 1}, "part of b": {grid.Images[1][1], 2}} {
		if got := occurrences(sheet, want.picture, 4); got != want.count {
			t.Errorf("%s: found %d times, want %d", name, got, want.count)
		}
	}
}

// occurrences counts the positions in the sheet at which every pixel of the enlarged picture matches.
func occurrences(sheet, picture image.Image, scale int) (count int) {
	bounds, size := sheet.Bounds(), picture.Bounds().Size().Mul(scale)
	matches := func(left, top int) bool {
		for y := range size.Y {
			for x := range size.X {
				if !hasColour(picture.At(picture.Bounds().Min.X+x/scale, picture.Bounds().Min.Y+y/scale))(sheet.At(left+x, top+y)) {
					return false
				}
			}
		}
		return true
	}
	for top := bounds.Min.Y; top <= bounds.Max.Y-size.Y; top++ {
		for left := bounds.Min.X; left <= bounds.Max.X-size.X; left++ {
			if matches(left, top) {
				count++
			}
		}
	}
	return count
}

func TestImageGridIsSavedWithoutNumbers(t *testing.T) {
	dir := t.TempDir()
	if err := SaveFigure(dir, "views", ImageGrid{Images: [][]image.Image{{noise(32, 32, 0)}}}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, len(files), 2)
	if _, err := os.Stat(filepath.Join(dir, "views.png")); err != nil {
		t.Error(err)
	}
}

func TestImageGridRefuses(t *testing.T) {
	one := [][]image.Image{{noise(2, 2, 0)}}
	for want, grid := range map[string]ImageGrid{
		"no images":                     {Images: [][]image.Image{{nil}, {}}},
		"scale -1 is negative":          {Images: one, Scale: -1},
		"2 row labels for 1 rows":       {Images: one, RowLabels: []string{"a", "b"}},
		"0 column labels for 1 columns": {Images: one, ColumnLabels: []string{}},
	} {
		if _, _, err := Render(grid); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

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
	if csv := CSV(f); csv != "box,line\nview,48×48 pixels\nloss,\"one, two\"\nloss,L 0.5\n" {
		t.Errorf("%q", csv)
	}
	for want, bad := range map[string]Schematic{
		"no boxes":                            {},
		"an arrow from box 0 to 5 of 3":       {Columns: 3, Rows: 2, Boxes: f.Boxes, Arrows: []SchematicArrow{{To: 5}}},
		`box 1, "loss", lies outside the gri`: {Columns: 2, Rows: 2, Boxes: f.Boxes},
	} {
		if _, _, err := Render(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCurvesOf(t *testing.T) {
	f := CurvesOf("x", "y", []string{"twice", "half"}, []float64{1, 2}, func(x float64) []float64 { return []float64{2 * x, x / 2} })
	if csv := CSV(f); csv != "series,x,y\ntwice,1,2\ntwice,2,4\nhalf,1,0.5\nhalf,2,1\n" {
		t.Errorf("%q", csv)
	}
}

// TestRowsOfPanels: of five panels the fifth is in a second row, as wide as the others.
func TestRowsOfPanels(t *testing.T) {
	panel := Curves{Title: "loss", X: "step", Y: "nats", Series: []Series{{Name: "a", X: []float64{0, 1}, Y: []float64{0, 1}}}}
	sizes := [2]image.Config{}
	for i, count := range []int{4, 5} {
		_, raster, err := Render(CurvesRow(slices.Repeat([]Curves{panel}, count)))
		if err != nil {
			t.Fatal(err)
		}
		if sizes[i], _, err = image.DecodeConfig(bytes.NewReader(raster)); err != nil {
			t.Fatal(err)
		}
	}
	if sizes[1].Width != sizes[0].Width || sizes[1].Height != 2*sizes[0].Height {
		t.Errorf("%+v", sizes)
	}
}

// TestLaTeXOfGreek: what tables hold of Greek and arrows is in the encoding of pdfLaTeX.
func TestLaTeXOfGreek(t *testing.T) {
	if text := latexText("κ δ λ τ Σ Δ → ±"); strings.ContainsFunc(text, func(r rune) bool { return r > 126 }) {
		t.Errorf("%q", text)
	}
}
