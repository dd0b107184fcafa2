package transfer

import (
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// tables returns the paper's two tables, and the same two for rows and datasets that the paper does not have.
func tables(results study.Results) []figures.Table {
	var all, ours []figures.Table
	for _, metric := range []struct {
		label, name, detail string
	}{{"semantic_seg", "mIoU", ""}, {"semantic_seg_acc", "pixel accuracy", "accuracy"}} {
		t := encoders.Beside(metric.label, "Semantic segmentation with fixed features: "+metric.name+" at the full size of the annotation.",
			encoders.Values(metric.detail, figures.MustPaper(metric.label).Columns...)...)
		all = append(all, t.Of(results))
		rows := encoders.WithRecords(results, encoders.OurRows(), results.Columns()...)
		columns := encoders.ColumnsOf(results, rows, results.Columns()...)
		if slices.SortFunc(columns, byPlace); len(columns) > 0 {
			t = encoders.Alone(t.Title+" for encoders of our own, which the paper does not have", t.Caption+encoders.BothBegin, rows, encoders.Values(metric.detail, columns...)...)
			t.RowHeads = []figures.RowHead{{Name: "encoder"}}
			ours = append(ours, t.Of(results))
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

// Datasets returns the names of the datasets with records, in the paper's order.
func Datasets(results study.Results) (names []string) {
	names = encoders.DatasetsOf(results.Columns())
	slices.SortFunc(names, byPlace)
	return names
}
