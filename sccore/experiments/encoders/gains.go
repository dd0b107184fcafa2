package encoders

import (
	"fmt"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
)

// Gains is a table of what training is worth, in points, one difference per seed: the start, alignment and the full method over random weights, and the full method
// over the start and over its control, alignment for as many steps. Its caption has the intervals. Encoders of different architectures are not compared. Without two seeds of any pair
// it has no rows.
func Gains(results study.Results, title, measure string, columns ...string) figures.Table {
	t := figures.Table{
		Title: title, Caption: "Differences of " + measure + ", paired by seed; 95 % intervals:",
		RowHeads: []figures.RowHead{{Name: "difference"}}, Columns: columns,
	}
	var intervals []string
	for _, pair := range [][2]string{{Init, Random}, {First, Random}, {Second, Random}, {Second, Init}, {Second, Control}} {
		row, measured := figures.Row{Heads: []string{Title(pair[0]) + " − " + Title(pair[1])}}, false
		for _, column := range columns {
			var cell figures.Cell
			if architectureOf(results.Of(pair[0], column)) == architectureOf(results.Of(pair[1], column)) {
				cell = results.Derived(results.Differences(column, pair[0], pair[1]), column, pair[0], pair[1])
			}
			if i := stats.MeanInterval(cell.Ours); i.N > 1 {
				measured = true
				numbers := strings.ReplaceAll(fmt.Sprintf("%.1f to %.1f", i.Low, i.High), "-", "−")
				intervals = append(intervals, fmt.Sprintf("%s, %s: %s", row.Heads[0], column, numbers))
			}
			row.Cells = append(row.Cells, cell)
		}
		if measured {
			t.Rows = append(t.Rows, row)
		}
	}
	t.Caption += " " + strings.Join(intervals, "; ") + "."
	results.Describe(&t, "points")
	return t
}

// architectureOf returns the architecture of the encoder behind records; empty without one.
func architectureOf(records []study.Record) string {
	for _, record := range records {
		var config struct {
			Encoder Encoder `json:"encoder"`
		}
		if record.DecodeConfig(&config) == nil {
			return config.Encoder.Architecture
		}
	}
	return ""
}
