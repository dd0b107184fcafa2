package centroid

import (
	"slices"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/experiments/encoders"
	"github.com/semcon/semcon/sccore/study"
)

// tables returns one table of all encoders and datasets with records.
func tables(results study.Results) ([]figures.Table, error) {
	rows, err := encoders.PaperRows(grid.Table)
	if err != nil {
		return nil, err
	}
	rows = encoders.WithRecords(results, slices.Concat(encoders.OurRows(), rows), results.Columns()...)
	return []figures.Table{encoders.Table{
		Title: "Nearest centroids of patches", Caption: "Share of test patches that are nearest to the mean feature of their class. The paper has no such table.",
		Rows: rows, Heads: []figures.RowHead{{Name: "method"}, {Name: "arch"}}, Columns: results.Columns(), Detail: func(string) string { return "" },
	}.Alone(results)}, nil
}
