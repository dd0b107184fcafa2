package mainresults

import (
	"slices"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/experiments/encoders"
	"github.com/semcon/semcon/sccore/study"
)

// tables returns the paper's table with our numbers on real images, the same table for our own rows, and a table of all rows on synthetic images.
func tables(results study.Results) ([]figures.Table, error) {
	read, synthetic := []string{titles[imageNet], titles[cocoStuff]}, titles[encoders.Synthetic]
	beside, err := encoders.Table{
		Title: "Tab. main", Caption: "Frozen features: linear segmentation on COCOStuff-27, linear and k-NN classification on ImageNet-1k.",
		From: read,
	}.Beside(results, "main")
	if err != nil {
		return nil, err
	}
	rows, err := encoders.PaperRows("main")
	if err != nil {
		return nil, err
	}
	all := []figures.Table{beside}
	for _, t := range []encoders.Table{
		{
			Title: "Tab. main for encoders of our own", Caption: "The same measures on the same images. The paper has no such rows.",
			Rows: encoders.OurRows(), From: read,
		},
		{
			Title:   "The same on " + synthetic,
			Caption: "Linear segmentation of scenes, linear and k-NN classification of objects, of six classes each. The paper has no such table.",
			Rows:    slices.Concat(encoders.OurRows(), rows), From: []string{synthetic},
		},
	} {
		t.Rows, t.Heads, t.Columns = encoders.WithRecords(results, t.Rows, t.From...), beside.RowHeads[:2], beside.Columns
		if len(t.Rows) > 0 {
			all = append(all, t.Alone(results))
		}
	}
	return all, nil
}
