package noisetolerance

import (
	"fmt"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
	"gonum.org/v1/gonum/stat"
)

// lossTitles are the names of the losses in tables.
var lossTitles = map[string]string{"bce": "binary cross-entropy", "cotap": "CoTAP"}

// table shows all records: a row is a loss, and a column a share of flipped labels.
func table(r study.Results) figures.Table {
	t := study.Table{
		Title:   "Flipped pseudo labels",
		Caption: "Average precision of the student's patch correspondences on new images, after training on pseudo labels of which a share is flipped. The paper has no such table.",
		Unit:    "%", RowHeads: []figures.RowHead{{Name: "loss"}},
	}
	for _, share := range flippedShares {
		t.Columns = append(t.Columns, study.Column{Head: flippedColumn(share)})
	}
	for _, loss := range lossNames {
		t.Rows = append(t.Rows, study.Row{Key: loss, Heads: []string{lossTitles[loss]}})
	}
	return t.Of(r)
}

// Curves plots average precision against the share of flipped labels, averaged over seeds.
func Curves(r study.Results) figures.Curves {
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

// drawn draws average precision by the share of flipped labels.
func drawn(results study.Results, _ study.FigureSources, all *study.Drawn) {
	all.Add(Curves(results), nil, "Average precision of the student by the share of flipped pseudo labels, means over seeds.", "noise-tolerance")
}
