package video

import (
	"context"

	"github.com/semcon/semcon/sccore/study"
)

// drawn draws a contact sheet of the first video. It needs a backend.
func drawn(results study.Results, from study.FigureSources) ([]study.Figure, error) {
	var all study.Drawn
	if from.Backend == nil {
		return all.All()
	}
	sheet, err := Sheet(context.Background(), from.Backend, study.Options{Profile: results.Profile, Out: from.Out, Data: from.Data}, 0, 5)
	all.Add(sheet, err, "Frames of the first video with the true masks, and with those that each encoder of seed 0 propagates from the first frame.", "sheet")
	return all.All()
}
