package overdispersion

import (
	"fmt"
	"maps"
	"slices"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/study"
)

// tables returns a table of both lines.
func tables(results study.Results) []figures.Table {
	return []figures.Table{study.TableOf(Name, string(results.Profile)).Of(results)}
}

// Figure draws both panels of Fig. over-disp, dense and image quality along training, and beside them how much more similar patches of one class are than
// patches of two: means over seeds, from the curves that records below out name. Without records it is an error.
func Figure(r study.Results, out string) (figures.CurvesRow, error) {
	q := qualities(profileConfig(r.Profile))
	f := figures.CurvesRow{
		{Title: fmt.Sprintf("patches, %s profile", r.Profile), X: "step", Y: q[0].title},
		{Title: "images", X: "step", Y: q[1].title},
		{Title: "similarity", X: "step", Y: "cosine, one class − two classes"},
	}
	for _, row := range rows {
		along := map[int]*[3][]float64{} // By step, the values of each panel.
		for _, record := range r.Of(row.row, q[0].column) {
			points, err := study.ReadCurve[sccore.StepMetrics](record.File(out, record.Curve))
			if err != nil {
				return nil, err
			}
			for _, p := range points {
				if _, ok := p.Evaluated[q[0].evaluated]; !ok {
					continue
				}
				if along[p.Step] == nil {
					along[p.Step] = new([3][]float64)
				}
				for panel, value := range []float64{p.Evaluated[q[0].evaluated], p.Evaluated[q[1].evaluated], p.Evaluated[evaluatedClass] - p.Evaluated[evaluatedOther]} {
					along[p.Step][panel] = append(along[p.Step][panel], value)
				}
			}
		}
		for _, step := range slices.Sorted(maps.Keys(along)) {
			for panel := range f {
				figures.AddPoint(&f[panel].Series, row.short, float64(step), stats.MeanInterval(along[step][panel]).Mean)
			}
		}
	}
	if f[0].Series == nil {
		return nil, fmt.Errorf("no records of %s in the %s profile", Name, r.Profile)
	}
	return f, nil
}

// drawn draws dense and image quality along training.
func drawn(results study.Results, from study.FigureSources, all *study.Drawn) {
	figure, err := Figure(results, from.Out)
	all.Add(figure, err, "Linear segmentation and k-NN accuracy along training, and how much more similar patches of one class are than those of two: Fig. over-disp.", "over-dispersion")
}
