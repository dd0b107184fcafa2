package features

import (
	"fmt"
	"image"
	"slices"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
)

// NamedEncoder is the file of an encoder and its name in figures. An empty file means random weights.
type NamedEncoder struct{ Name, File string }

// Components draws the patch features of encoders: their first three principal components over all scenes as red, green and blue.
func (w *Viewer) Components(encoders ...NamedEncoder) (figures.ImageGrid, error) {
	sheet := figures.ImageGrid{Title: "Patch features: three principal components as colours", ColumnLabels: []string{"scene"}, Scale: w.enlargement(), RowLabels: w.names()}
	if w.Names != nil {
		sheet.ColumnLabels[0] = "image"
	}
	for _, shown := range w.shown {
		sheet.Images = append(sheet.Images, []image.Image{shown})
	}
	for _, e := range encoders {
		s, err := w.encode(e.File)
		if err != nil {
			return sheet, err
		}
		components, err := stats.PrincipalComponents(s.patches, 3)
		if err != nil {
			return sheet, fmt.Errorf("%s: %w", e.Name, err)
		}
		low, high := middleRange(components)
		sheet.ColumnLabels = append(sheet.ColumnLabels, e.Name)
		places := s.rows * s.columns
		for i, im := range w.images {
			pixels := make([]float32, im.Height*im.Width*3)
			for p := range im.Height * im.Width {
				patch := components[i*places+p/im.Width*s.rows/im.Height*s.columns+p%im.Width*s.columns/im.Width]
				for c := range 3 {
					pixels[3*p+c] = shareOf(patch[c], low[c], high[c])
				}
			}
			sheet.Images[i] = append(sheet.Images[i], figures.NewImage(pixels, im.Height, im.Width))
		}
	}
	return sheet, nil
}

// middleRange is the range of the middle 95 % of patches, for each of three components.
func middleRange(components [][]float64) (low, high [3]float64) {
	for c := range 3 {
		var values []float64
		for _, patch := range components {
			values = append(values, patch[c])
		}
		slices.Sort(values)
		low[c], high[c] = values[len(values)/40], values[len(values)-1-len(values)/40]
	}
	return low, high
}

// shareOf is where a value lies in a range, from 0 to 1.
func shareOf(value, low, high float64) float32 {
	return float32(min(max((value-low)/max(high-low, 1e-12), 0), 1))
}
