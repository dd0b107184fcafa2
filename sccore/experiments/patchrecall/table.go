package patchrecall

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Names of details: the recall without the class background, and what chance is.
const (
	detailChance           = "chance"
	detailForeground       = "foreground"
	detailForegroundChance = "foreground_chance"
)

// tables returns a table of all encoders and datasets with records, one of what training is worth, and the first without the class background where there is
// such a class.
func tables(results study.Results) []figures.Table {
	rows := encoders.AllRows(results, "semantic_seg", results.Columns()...)
	columns := encoders.ColumnsOf(results, rows, results.Columns()...)
	slices.SortFunc(columns, func(a, b string) int { // Linear first.
		before, kind, _ := strings.Cut(a, "/")
		after, other, _ := strings.Cut(b, "/")
		return cmp.Or(cmp.Compare(before, after), cmp.Compare(slices.Index([]string{linear, nearest}, kind), slices.Index([]string{linear, nearest}, other)))
	})
	t := encoders.Table{
		Title:   "Recall of classes over patches",
		Caption: "Mean over classes of the share of patches that are classified rightly. " + chances(results, rows, columns, detailChance) + "The paper has no such table.",
		Rows:    rows, Heads: []figures.RowHead{{Name: "method"}, {Name: "arch"}},
		Columns: columns, Detail: encoders.Value,
	}
	all := []figures.Table{t.Alone(results)}
	if gains := encoders.Gains(results, "What training is worth in recall over patches", "recall", columns...); len(gains.Rows) > 0 {
		all = append(all, gains)
	}
	t.Columns = slices.DeleteFunc(slices.Clone(columns), func(column string) bool {
		return len(details(results, rows, column, detailForeground)) == 0
	})
	if len(t.Columns) > 0 {
		t.Title += ", without background"
		t.Caption = strings.TrimSpace("The same for patches of the other classes alone. " + chances(results, rows, t.Columns, detailForegroundChance))
		t.Detail = func(string) string { return detailForeground }
		all = append(all, t.Alone(results))
	}
	return all
}

// chances says what chance is on each dataset, and why it differs where it does; it is empty without records.
func chances(results study.Results, rows []encoders.Row, columns []string, detail string) string {
	values, order := map[string][]float64{}, []string{}
	for _, column := range columns {
		dataset, _, _ := strings.Cut(column, "/")
		if found := details(results, rows, column, detail); len(found) > 0 {
			if values[dataset] == nil {
				order = append(order, dataset)
			}
			values[dataset] = append(values[dataset], found...)
		}
	}
	var parts []string
	why := ""
	for _, dataset := range order {
		low, high := slices.Min(values[dataset]), slices.Max(values[dataset])
		part := fmt.Sprintf("%.1f %% on %s", low, dataset)
		if low != high {
			part = fmt.Sprintf("%.1f to %.1f %% on %s", low, high, dataset)
			why = "Chance differs where the classes do: one counts where a seed's images have enough patches of it. "
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return ""
	}
	return "Chance is " + strings.Join(parts, ", ") + ". " + why
}

// details returns a detail of a column's records.
func details(results study.Results, rows []encoders.Row, column, name string) (values []float64) {
	for _, row := range rows {
		values = append(values, results.Details(row.Key, column, name)...)
	}
	return values
}
