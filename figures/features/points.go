package features

import (
	"fmt"
	"image"
	"image/color"

	"github.com/semcon/semcon/figures"
)

// Point is a place in an image, in shares of its width and height from the upper left corner: 0.5, 0.5 is the middle.
type Point struct{ X, Y float64 }

// leastFrame is the least height and width of a frame around a patch, as a share of the image.
const leastFrame = 0.1

// Points draws, for each of some points of the first scene, how alike the patches of every scene are to the patch that the point lies in: the cosine of
// their features, pale where it is high. A frame surrounds that patch, and beside each map the patch that is most like it, in the first scene another one. A
// point outside the image is an error.
func (w *Viewer) Points(encoder NamedEncoder, points ...Point) (figures.ImageGrid, error) {
	sheet := figures.ImageGrid{Title: "Patches that are like the one at a point", ColumnLabels: []string{"point"}, Scale: 1}
	for i := range w.shown {
		label := "likeness to it"
		if len(w.shown) > 1 {
			label = fmt.Sprintf("likeness, image %d", i+1)
		}
		sheet.ColumnLabels = append(sheet.ColumnLabels, label, "most alike")
	}
	s, err := w.encode(encoder.File)
	if err != nil {
		return sheet, err
	}
	scale := w.enlargement()
	frame := func(place int) figures.Box { // Around the patch, and large enough to be seen.
		height, width := max(1/float64(s.rows), leastFrame), max(1/float64(s.columns), leastFrame)
		middleY, middleX := (float64(place/s.columns)+0.5)/float64(s.rows), (float64(place%s.columns)+0.5)/float64(s.columns)
		return figures.Box{Top: middleY - height/2, Left: middleX - width/2, Height: height, Width: width}
	}
	for _, at := range points {
		if !(at.X >= 0 && at.X < 1 && at.Y >= 0 && at.Y < 1) {
			return sheet, fmt.Errorf("point %g, %g: want shares of the image from 0 up to 1", at.X, at.Y)
		}
		place := int(at.Y*float64(s.rows))*s.columns + int(at.X*float64(s.columns))
		query := s.ofScene(0)[place]
		row := []image.Image{figures.DrawBoxes(paled(w.shown[0]), scale, frame(place))}
		for i, shown := range w.shown {
			var scores []float64
			best := -1
			for p, patch := range s.ofScene(i) {
				scores = append(scores, cosine(query, patch))
				if own := i == 0 && p == place; !own && (best < 0 || scores[p] > scores[best]) {
					best = p
				}
			}
			bounds := shown.Bounds()
			heat := figures.HeatImage(scores, s.columns, scale*bounds.Dy(), scale*bounds.Dx())
			row = append(row, heat, figures.DrawBoxes(paled(shown), scale, figures.Box{}, frame(max(best, 0))))
		}
		sheet.RowLabels = append(sheet.RowLabels, fmt.Sprintf("%g, %g", at.X, at.Y))
		sheet.Images = append(sheet.Images, row)
	}
	return sheet, nil
}

// paled is a picture half way to white, on which frames are seen.
func paled(picture image.Image) image.Image {
	bounds := picture.Bounds()
	pale := image.NewRGBA(bounds)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			half := func(level uint32) uint8 { return uint8((level>>8 + 255) / 2) }
			pale.SetRGBA(x, y, color.RGBA{half(r), half(g), half(b), 255})
		}
	}
	return pale
}
