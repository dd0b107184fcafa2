package patchrecall

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/experiments/encoders"
	"github.com/semcon/semcon/sccore/study"
)

// tables returns a table of all encoders and datasets with records, and one of the same without the class background where there is such a class.
func tables(results study.Results) ([]figures.Table, error) {
	rows, err := encoders.PaperRows(grid.Table)
	if err != nil {
		return nil, err
	}
	rows = slices.Concat(encoders.OurRows(), rows)
	columns := encoders.ColumnsOf(results, rows, results.Columns()...)
	slices.SortStableFunc(columns, func(a, b string) int { // Datasets as in the records, linear first.
		before, kind, _ := strings.Cut(a, "/")
		after, other, _ := strings.Cut(b, "/")
		if before != after {
			return 0
		}
		return cmp.Compare(slices.Index(classifiers, kind), slices.Index(classifiers, other))
	})
	t := encoders.Table{
		Title:   "Recall of classes over patches",
		Caption: "Mean over classes of the share of patches that are classified rightly. " + chances(results, rows, columns) + " The paper has no such table.",
		Rows:    encoders.WithRecords(results, rows, columns...), Heads: []figures.RowHead{{Name: "method"}, {Name: "arch"}},
		Columns: columns, Detail: func(string) string { return "" },
	}
	all := []figures.Table{withDifferences(results, t.Alone(results))}
	t.Columns = slices.DeleteFunc(slices.Clone(columns), func(column string) bool {
		return len(details(results, rows, column, detailForeground)) == 0
	})
	if len(t.Columns) > 0 {
		t.Title += ", without background"
		t.Caption = "The same for patches of the other classes alone."
		t.Detail = func(string) string { return detailForeground }
		all = append(all, t.Alone(results))
	}
	return all, nil
}

// chances says what chance is on each dataset.
func chances(results study.Results, rows []encoders.Row, columns []string) string {
	var parts []string
	for _, column := range columns {
		dataset, _, _ := strings.Cut(column, "/")
		for _, chance := range details(results, rows, column, detailChance) {
			if part := fmt.Sprintf("%.1f %% on %s", chance, dataset); !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
	}
	return "Chance is " + strings.Join(parts, ", ") + "."
}

// details returns a detail of a column's records.
func details(results study.Results, rows []encoders.Row, column, name string) (values []float64) {
	for _, row := range rows {
		values = append(values, results.Details(row.Key, column, name)...)
	}
	return values
}

// withDifferences adds rows of differences paired by seed: what alignment learns, and what the full method adds to alignment for as many steps.
func withDifferences(results study.Results, table figures.Table) figures.Table {
	for _, pair := range []struct{ row, other string }{{encoders.First, encoders.Random}, {encoders.Second, encoders.Control}} {
		line, measured := figures.Row{Heads: []string{encoders.Title(pair.row) + " − " + encoders.Title(pair.other), ""}}, false
		for _, column := range table.Columns {
			differences := results.Differences(column, pair.row, pair.other)
			line.Cells, measured = append(line.Cells, results.Derived(differences, column, pair.row, pair.other)), measured || len(differences) > 0
		}
		if measured {
			table.Rows = append(table.Rows, line)
		}
	}
	return table
}
