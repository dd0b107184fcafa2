package overdispersion

import (
	"github.com/semcon/semcon/sccore/study"
)

// drawn draws dense and image quality along training.
func drawn(results study.Results, from study.FigureSources) ([]study.Figure, error) {
	var all study.Drawn
	figure, err := Results{results}.Figure(from.Out)
	all.Add(figure, err, "Linear segmentation and k-NN accuracy along training, and how much more similar patches of one class are than those of two: Fig. over-disp.", "over-dispersion")
	return all.All()
}
