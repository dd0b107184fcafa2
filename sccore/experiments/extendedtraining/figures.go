package extendedtraining

import (
	"github.com/semcon/semcon/sccore/study"
)

// drawn draws what the arms of each baseline gain along training, on real and on synthetic images.
func drawn(results study.Results, from study.FigureSources) ([]study.Figure, error) {
	both, err := split(results)
	if err != nil {
		return nil, err
	}
	var all study.Drawn
	for _, r := range both {
		for _, baseline := range r.baselines() {
			name := []string{"gains", baseline}
			if r.read {
				name = append(name, "images")
			}
			curves, err := r.Curves(from.Out, baseline)
			all.Add(curves, err, "What longer training adds to "+titles[baseline]+", by arm, along training: gains over the initial model, means over seeds.", name...)
		}
	}
	return all.All()
}
