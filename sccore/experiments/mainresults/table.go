package mainresults

import (
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// tables returns the paper's table with our numbers on real images, the same table for our own rows, a table of all rows on class folders that are not
// ImageNet-1k, and one on synthetic images.
func tables(results study.Results) []figures.Table {
	read, synthetic := []string{titles[evaluation.ImageNet], titles[encoders.COCOStuff]}, titles[encoders.Synthetic]
	other := results.Where(func(r study.Record) bool { return evaluation.OtherClasses(r.Data) })
	results = results.Where(func(r study.Record) bool { return !evaluation.OtherClasses(r.Data) })
	beside := encoders.Table{
		Title: "Tab. main", Caption: "Frozen features: linear segmentation on COCOStuff-27, linear and k-NN classification on ImageNet-1k.",
		From: read,
	}.Beside(results, "main")
	all := []figures.Table{beside}
	for _, t := range []struct {
		encoders.Table
		results study.Results
	}{
		{encoders.Table{
			Title: "Tab. main for encoders of our own", Caption: "The same measures on the same images. The paper has no such rows.",
			Rows: encoders.OurRows(), From: read,
		}, results},
		{encoders.Table{
			Title:   "The same on class folders of another number than ImageNet-1k's",
			Caption: "Linear and k-NN classification of the images in imagenet/, with which the paper's numbers do not compare.",
			From:    read,
		}, other},
		{encoders.Table{
			Title:   "The same on " + synthetic,
			Caption: "Linear segmentation of scenes, linear and k-NN classification of objects, of six classes each. The paper has no such table.",
			From:    []string{synthetic},
		}, results},
	} {
		if t.Rows == nil {
			t.Rows = encoders.AllRows(t.results, "main", t.From...)
		}
		t.Rows, t.Heads, t.Columns = encoders.WithRecords(t.results, t.Rows, t.From...), beside.RowHeads[:2], beside.Columns
		if len(t.Rows) > 0 {
			all = append(all, t.Alone(t.results))
		}
	}
	return all
}
