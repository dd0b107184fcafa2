package teacherquality

import (
	"github.com/semcon/semcon/sccore/study"
)

// drawn draws gains by the precision of correspondences.
func drawn(results study.Results, _ study.FigureSources, all *study.Drawn) {
	scenes := Results{results, false}
	for _, r := range []Results{scenes, scenes.OnPhotographs()} {
		name := "gains"
		if r.photographs {
			name = "gains-photographs"
		}
		if gains := r.Gains(); len(gains.Series) > 0 {
			all.Add(gains, nil, "Gain of each loss over patch alignment alone, at equal length of the gradient, by the precision of its correspondences. Hollow: of third encoders.", name)
		}
	}
}
