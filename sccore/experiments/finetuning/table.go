package finetuning

import (
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// tables returns the paper's table, and the same one for rows and datasets that the paper does not have.
func tables(results study.Results) []figures.Table {
	t := encoders.Beside("semantic_seg_ft", "Semantic segmentation with full fine-tuning: mIoU at the full size of the annotation.")
	beside := t.Of(results)
	all := []figures.Table{beside}
	columns := slices.DeleteFunc(results.Columns(), func(column string) bool { return slices.Contains(beside.Columns, column) })
	rows := append(encoders.WithRecords(results, encoders.OurRows(), results.Columns()...), encoders.WithRecords(results, t.Rows, columns...)...)
	columns = encoders.ColumnsOf(results, rows, results.Columns()...)
	slices.SortFunc(columns, byPlace)
	if len(columns) > 0 {
		ours := encoders.Alone(t.Title+" for encoders and datasets that the paper does not have", t.Caption+encoders.BothBegin, rows, study.Columns(columns...)...)
		ours.RowHeads = []figures.RowHead{{Name: "encoder"}}
		all = append(all, ours.Of(results))
	}
	if gains := encoders.Gains(results, "What the initial weights are worth", "mIoU", columns...); len(gains.Rows) > 0 {
		all = append(all, gains)
	}
	return all
}

// byPlace orders columns as the paper does, with its datasets before others.
func byPlace(a, b string) int {
	place := func(column string) int {
		dataset, head, _ := strings.Cut(column, "/")
		at := 2 * slices.Index([]string{"synthetic scenes", "CamVid", "PASCAL VOC", "COCOStuff-27", "Cityscapes", "ADE20k"}, dataset)
		if head == headTitles["upernet"] {
			at++
		}
		return -at
	}
	return place(a) - place(b)
}
