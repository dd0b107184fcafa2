package noiserate

import (
	"slices"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Names of the table's columns.
const columnTop = "top decile"

// tables returns a table of each dataset with records.
func tables(results study.Results) (tables []figures.Table, err error) {
	rows, err := allRows()
	if err != nil {
		return nil, err
	}
	for _, column := range results.Columns() {
		table := encoders.Table{
			Title: "Positive rate on " + column,
			Caption: "Share of pairs of patches of different images that have one class: of the tenth of pairs with the highest cosine, and of all pairs. The paper " +
				"has it as Fig. noise_rate alone.",
			Rows: encoders.WithRecords(results, rows, column), Heads: []figures.RowHead{{Name: "method"}, {Name: "arch"}},
			Columns: []string{columnTop, detailAll}, From: []string{column},
			Detail: func(shown string) string {
				if shown == columnTop {
					return "" // The value of a record.
				}
				return shown
			},
		}
		tables = append(tables, table.Alone(results))
	}
	return tables, nil
}

// allRows lists our rows and the paper's.
func allRows() ([]encoders.Row, error) {
	rows, err := encoders.PaperRows(grid.Table)
	return slices.Concat(encoders.OurRows(), rows), err
}

// measure returns the quantity of the claims C20 and C21 for DINO, or else for our own encoders, in the first column that has records of both before and after.
func measure(results study.Results, claim figures.Claim) study.Evidence {
	for _, pair := range [][2]string{{"dino-s16", "dino+ours-s16"}, {encoders.First, encoders.Second}, {encoders.Init, encoders.Second}} {
		for _, column := range results.Columns() {
			gains := results.Differences(column, pair[1], pair[0])
			if len(gains) == 0 {
				continue
			}
			if claim.ID == "C20" {
				return results.Evidence(results.Details(pair[0], column, detailTrend), column)
			}
			return results.Evidence(gains, column)
		}
	}
	return study.Evidence{}
}
