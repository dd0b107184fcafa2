package noisetolerance

import (
	"github.com/semcon/semcon/sccore/study"
)

// drawn draws average precision by the share of flipped labels.
func drawn(results study.Results, _ study.FigureSources) ([]study.Figure, error) {
	var all study.Drawn
	all.Add(Results{results}.Curves(), nil, "Average precision of the student by the share of flipped pseudo labels, means over seeds.", "noise-tolerance")
	return all.All()
}
