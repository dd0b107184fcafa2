package detection

import (
	"fmt"

	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// drawnImages is the number of images in a figure.
const drawnImages = 5

// drawn draws what detectors make of test images, stage by stage. It needs a backend.
func drawn(results study.Results, from study.FigureSources) ([]study.Figure, error) {
	var all study.Drawn
	if from.Backend == nil {
		return all.All()
	}
	r := Results{results}
	for _, dataset := range r.Datasets() {
		rows, err := encoders.DrawnRows(results, "obj_det", column(dataset, boxes))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			sheet, err := r.Stages(from.Backend, from.Data, from.Out, row.Key, dataset, drawnImages)
			sheet.Title = encoders.Title(row.Key) + ", " + dataset
			all.Add(sheet, err, fmt.Sprintf("Test images with their objects, the best proposals, both stages, and detections with a score above %g.", leastDrawn), "stages", dataset, row.Key)
		}
	}
	return all.All()
}
