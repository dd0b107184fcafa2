package finetuning

import (
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// drawnImages is the number of images in a figure.
const drawnImages = 6

// drawn draws what models make of test images, for each column with records. It needs a backend.
func drawn(results study.Results, from study.FigureSources) ([]study.Figure, error) {
	var all study.Drawn
	if from.Backend == nil {
		return all.All()
	}
	for _, column := range results.Columns() {
		rows, err := encoders.DrawnRows(results, "semantic_seg_ft", column)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			predictions, classes, err := Results{results}.Predictions(from.Backend, from.Data, from.Out, row.Key, column, drawnImages)
			title := encoders.Title(row.Key) + ", " + column
			all.Add(figures.SegmentationGrid(title, predictions, classes), err, "Test images, their classes, and what "+title+" predicts.", "segmentation", strings.ReplaceAll(column, "/", "-"), row.Key)
		}
	}
	return all.All()
}
