package transfer

import (
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// drawnImages is the number of images in a figure.
const drawnImages = 6

// drawn draws what the heads of encoders make of test images, for each column with records. It needs a backend.
func drawn(results study.Results, from study.FigureSources) ([]study.Figure, error) {
	return encoders.DrawPredictions(results, from, "semantic_seg", func(row, column string) ([]figures.Segmented, []string, error) {
		return Results{results}.Predictions(from.Backend, from.Data, from.Out, row, column, drawnImages)
	})
}
