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
	t := encoders.Table{
		Title: "Tab. semantic_seg_ft", Caption: "Semantic segmentation with full fine-tuning: mIoU at the full size of the annotation.",
		Detail: func(string) string { return "" },
	}
	beside := t.Beside(results, "semantic_seg_ft")
	all := []figures.Table{beside}
	t.Title += " for encoders and datasets that the paper does not have"
	t.Caption += " The full method and its control, alignment for as many steps, both begin from alignment, or from the initialisation where there is one."
	columns := slices.DeleteFunc(results.Columns(), func(column string) bool { return slices.Contains(beside.Columns, column) })
	t.Rows = append(encoders.WithRecords(results, encoders.OurRows(), results.Columns()...), encoders.WithRecords(results, encoders.PaperRows("semantic_seg_ft"), columns...)...)
	t.Heads, t.Columns = []figures.RowHead{{Name: "encoder"}}, encoders.ColumnsOf(results, t.Rows, results.Columns()...)
	slices.SortFunc(t.Columns, byPlace)
	if len(t.Columns) > 0 {
		all = append(all, t.Alone(results))
	}
	if gains := encoders.Gains(results, "What the initial weights are worth", "mIoU", t.Columns...); len(gains.Rows) > 0 {
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
