package noisetolerance

import (
	"fmt"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
	"gonum.org/v1/gonum/stat"
)

// lossTitles are the names of the losses in tables.
var lossTitles = map[string]string{"bce": "binary cross-entropy", "cotap": "CoTAP"}

// Results are the records of the study in one profile. A row is a loss, and a column a share of flipped labels.
type Results struct{ study.Results }

// Load reads the study's records under the folder out.
func Load(out string, profile study.Profile) (Results, error) {
	results, err := Study.Load(out, profile)
	return Results{results}, err
}

func (r Results) table() figures.Table {
	t := figures.Table{
		Title:   "Flipped pseudo labels",
		Caption: "Average precision of the student's patch correspondences on new images, after training on pseudo labels of which a share is flipped. The paper has no such table.",
		Unit:    "%", Profile: string(r.Profile),
		RowHeads: []figures.RowHead{{Name: "loss"}},
	}
	for _, share := range flippedShares {
		t.Columns = append(t.Columns, flippedColumn(share))
	}
	for _, loss := range lossNames {
		row := figures.Row{Heads: []string{lossTitles[loss]}}
		for _, share := range flippedShares {
			row.Cells = append(row.Cells, r.Cell(loss, flippedColumn(share)))
		}
		t.Rows = append(t.Rows, row)
	}
	r.Describe(&t, "%")
	return t
}

// Curves plots average precision against the share of flipped labels, averaged over seeds.
func (r Results) Curves() figures.Curves {
	f := figures.Curves{Title: fmt.Sprintf("Flipped pseudo labels, %s profile", r.Profile), X: "flipped labels (%)", Y: "average precision (%)"}
	for _, loss := range lossNames {
		series := figures.Series{Name: lossTitles[loss]}
		for _, share := range flippedShares {
			if values := r.Values(loss, flippedColumn(share)); len(values) > 0 {
				series.X, series.Y = append(series.X, 100*share), append(series.Y, stat.Mean(values, nil))
			}
		}
		f.Series = append(f.Series, series)
	}
	return f
}
