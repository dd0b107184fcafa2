package effectaug

import (
	"github.com/semcon/semcon/sccore/study"
)

// drawn draws what each method loses without crops, and what it gains by transformations, on each dataset with records.
func drawn(results study.Results, _ study.FigureSources) ([]study.Figure, error) {
	var all study.Drawn
	r := Results{results}
	for _, dataset := range r.Datasets() {
		drop, err := r.CropDrop(dataset)
		all.Add(drop, err, "k-NN accuracy that each method loses when its views no longer show different positions of the image. Filled: ours; hollow: the paper's.", "crop-drop", dataset)
		richness, err := r.Richness(dataset)
		all.Add(richness, err, "k-NN accuracy by the number of transformations, with independent crops. Filled: ours; hollow: the paper's.", "richness", dataset)
	}
	return all.All()
}
