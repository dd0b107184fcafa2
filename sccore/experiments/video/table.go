package video

import (
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// tables returns the paper's table with our numbers on DAVIS, and a table with recall and decay for each dataset with records.
func tables(results study.Results) []figures.Table {
	detail := func(column string) string {
		if column == "J&F_mean" { // The value of a record.
			return ""
		}
		return column
	}
	beside := encoders.Table{
		Title: "Tab. video_seg", Caption: "Video object segmentation on DAVIS-2017 by label propagation with frozen features.",
		From: []string{titles[davis]}, Detail: detail,
	}.Beside(results, "video_seg")
	all := []figures.Table{beside}
	for _, dataset := range []string{titles[davis], titles[encoders.Synthetic]} {
		t := encoders.Table{
			Title:   "Recall and decay on " + dataset,
			Caption: "All measures of video object segmentation; a high decay is a loss over time. The paper has no such table.",
			Rows:    encoders.AllRows(results, "video_seg", dataset), Heads: beside.RowHeads,
			Columns: []string{"J&F_mean", "J_mean", "J_recall", "J_decay", "F_mean", "F_recall", "F_decay"},
			From:    []string{dataset}, Detail: detail,
		}
		if len(t.Rows) > 0 {
			all = append(all, t.Alone(results))
		}
	}
	return all
}
