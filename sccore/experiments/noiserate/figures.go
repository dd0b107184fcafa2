package noiserate

import (
	"github.com/semcon/semcon/sccore/study"
)

// drawn draws the positive rate by similarity, for each dataset with records.
func drawn(results study.Results, _ study.FigureSources) ([]study.Figure, error) {
	var all study.Drawn
	for _, column := range results.Columns() {
		figure, err := Results{results}.Figure(column)
		all.Add(figure, err, "Share of pairs of patches of one class by their similarity, and by its rank: Fig. noise_rate.", "noise-rate", column)
	}
	return all.All()
}
