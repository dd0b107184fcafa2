package features

import (
	"image"
	"math"

	"github.com/semcon/semcon/figures"
)

// Correspondences draws, for the middle patch of each scene but the last, its correspondence with the patches of the next scene under each encoder: half
// the cosine similarity of patch features plus a half, pale where it is high.
func (w *Viewer) Correspondences(encoders ...NamedEncoder) (figures.ImageGrid, error) {
	sheet := figures.ImageGrid{
		Title: "Correspondence of patches of another scene with the marked patch: pale is more", ColumnLabels: []string{"patch", "other scene"}, Scale: 1,
	}
	if names := w.names(); names != nil {
		sheet.Title, sheet.ColumnLabels[1] = "How alike patches of the next image are to the marked patch: pale is more", "next image"
		for i := range len(names) - 1 {
			sheet.RowLabels = append(sheet.RowLabels, names[i]+",\nthen "+names[i+1])
		}
	}
	scale := w.enlargement()
	for i := range len(w.shown) - 1 {
		sheet.Images = append(sheet.Images, []image.Image{nil, figures.DrawBoxes(w.shown[i+1], scale)})
	}
	for _, e := range encoders {
		s, err := w.encode(e.File)
		if err != nil {
			return sheet, err
		}
		sheet.ColumnLabels = append(sheet.ColumnLabels, e.Name)
		row, column := s.rows/2, s.columns/2
		height, width := 1/float64(s.rows), 1/float64(s.columns)
		for i := range sheet.Images {
			query := s.ofScene(i)[row*s.columns+column]
			var scores []float64
			for _, patch := range s.ofScene(i + 1) {
				scores = append(scores, cosine(query, patch)/2+0.5)
			}
			marked := figures.Box{Top: float64(row) * height, Left: float64(column) * width, Height: height, Width: width}
			sheet.Images[i][0] = figures.DrawBoxes(w.shown[i], scale, figures.Box{}, marked)
			bounds := w.shown[i+1].Bounds()
			sheet.Images[i] = append(sheet.Images[i], figures.HeatImage(scores, s.columns, scale*bounds.Dy(), scale*bounds.Dx()))
		}
	}
	return sheet, nil
}

// Scores are the correspondences of the patches of two scenes under an encoder, in [0, 1]: patch by patch of the first, that patch with each of the second,
// half the cosine similarity of their features plus a half.
func (w *Viewer) Scores(encoder NamedEncoder, first, second int) ([]float64, error) {
	s, err := w.encode(encoder.File)
	if err != nil {
		return nil, err
	}
	var scores []float64
	for _, a := range s.ofScene(first) {
		for _, b := range s.ofScene(second) {
			scores = append(scores, cosine(a, b)/2+0.5)
		}
	}
	return scores, nil
}

func cosine(a, b []float64) float64 {
	var ab, aa, bb float64
	for d := range a {
		ab, aa, bb = ab+a[d]*b[d], aa+a[d]*a[d], bb+b[d]*b[d]
	}
	return ab / math.Sqrt(max(aa*bb, 1e-24))
}
