package figures

import (
	"image"
	"image/color"
	"os"
	"path/filepath"
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
				if !is(picture.At(picture.Bounds().Min.X+x/scale, picture.Bounds().Min.Y+y/scale))(sheet.At(left+x, top+y)) {
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
		if _, _, err := grid.Render(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
