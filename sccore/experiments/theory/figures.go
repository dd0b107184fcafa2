package theory

import (
	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/study"
)

// drawn draws the bounds, the concentration and the tails of encoders, for each dataset with records.
func drawn(results study.Results, from study.FigureSources) ([]study.Figure, error) {
	var all study.Drawn
	r := Results{results}
	for _, dataset := range r.Datasets() {
		all.Add(r.Ladder(dataset), nil, "The error of the nearest class mean and the bounds on it, for each method and row.", "ladder", dataset)
		for _, views := range []struct{ name, title string }{{CommonViews, "the views of the first row"}, {OwnViews, "the views that each encoder was trained with"}} {
			all.Add(r.Concentration(dataset, views.name), nil, "Error by the mean similarity of features, on "+views.title+". A point is an encoder.", "concentration", views.name, dataset)
		}
		if method, seed, ok := r.first(dataset); ok {
			tails, err := r.Tails(from.Out, dataset, method, seed)
			all.Add(tails, err, "Mean tails p and q by their thresholds, for the encoders of "+method+".", "tails", dataset)
		}
	}
	return all.All()
}

// first returns the first method of a dataset with records, and its lowest seed.
func (r Results) first(dataset string) (method string, seed int, ok bool) {
	for _, name := range methods.Names {
		for _, row := range effectaug.Rows {
			if records := r.Of(row.Name, dataset+"/"+effectaug.MethodTitles[name]); len(records) > 0 {
				return effectaug.MethodTitles[name], records[0].Seed, true
			}
		}
	}
	return "", 0, false
}
