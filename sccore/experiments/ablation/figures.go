package ablation

import (
	"github.com/semcon/semcon/sccore/study"
)

// drawn draws the lines of the ablation between two tasks, on real and on synthetic images.
func drawn(results study.Results, _ study.FigureSources) ([]study.Figure, error) {
	both, err := split(results)
	if err != nil {
		return nil, err
	}
	var all study.Drawn
	for _, r := range both {
		name := []string{"trade-off"}
		if r.read {
			name = append(name, "images")
		}
		trade, err := r.TradeOff()
		all.Add(trade, err, "The lines of the ablation by k-NN classification and linear segmentation.", name...)
	}
	return all.All()
}
