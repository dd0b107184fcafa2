package transfer

import (
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// tables returns the paper's two tables, and the same two for rows and datasets that the paper does not have.
func tables(results study.Results) (all []figures.Table) {
	var ours []figures.Table
	for _, metric := range []struct {
		label, name, detail string
	}{{"semantic_seg", "mIoU", ""}, {"semantic_seg_acc", "pixel accuracy", "accuracy"}} {
		t := encoders.Table{
			Title: "Tab. " + metric.label, Caption: "Semantic segmentation with fixed features: " + metric.name + " at the full size of the annotation.",
			Detail: func(string) string { return metric.detail },
		}
		all = append(all, t.Beside(results, metric.label))
		t.Title += " for encoders of our own, which the paper does not have"
		t.Caption += " The full method and its control, alignment for as many steps, both begin from alignment, or from the initialisation where there is one."
		t.Rows, t.Heads = encoders.WithRecords(results, encoders.OurRows(), results.Columns()...), []figures.RowHead{{Name: "encoder"}}
		t.Columns = encoders.ColumnsOf(results, t.Rows, results.Columns()...)
		slices.SortFunc(t.Columns, byPlace)
		if len(t.Columns) > 0 {
			ours = append(ours, t.Alone(results))
		}
	}
	return append(all, ours...)
}

// byPlace orders columns and datasets as the paper does.
func byPlace(a, b string) int {
	place := func(column string) int {
		dataset, head, _ := strings.Cut(column, "/")
		at := 2 * slices.Index([]string{"COCOStuff-27", "PASCAL VOC", "ADE20k", "Cityscapes", "CamVid", "synthetic scenes"}, dataset)
		if head == "FCN" {
			at++
		}
		return at
	}
	return place(a) - place(b)
}

// Results are the records of the experiment in one profile.
type Results struct{ study.Results }

// Load reads the experiment's records under the folder out.
func Load(out string, profile study.Profile) (Results, error) {
	results, err := Study.Load(out, profile)
	return Results{results}, err
}

// Datasets returns the names of the datasets with records, in the paper's order.
func (r Results) Datasets() (names []string) {
	for _, column := range r.Columns() {
		if name, _, _ := strings.Cut(column, "/"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, byPlace)
	return names
}
