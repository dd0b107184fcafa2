package noiserate

import (
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Names of the table's columns.
const columnTop = "top decile"

// tables returns a table of each dataset with records.
func tables(results study.Results) (tables []figures.Table) {
	for _, column := range results.Columns() {
		table := encoders.Table{
			Title: "Positive rate on " + column,
			Caption: "Share of pairs of patches of different images that have one class: of the tenth of pairs with the highest cosine, and of all pairs. The paper " +
				"has it as Fig. noise_rate alone.",
			Rows: encoders.AllRows(results, "main", column), Heads: []figures.RowHead{{Name: "method"}, {Name: "arch"}},
			Columns: []string{columnTop, evaluation.DetailAllPairs}, From: []string{column},
			Detail: func(shown string) string {
				if shown == columnTop {
					return "" // The value of a record.
				}
				return shown
			},
		}
		tables = append(tables, table.Alone(results))
	}
	return tables
}
