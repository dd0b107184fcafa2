package figures

import (
	"math"
	"strconv"

	"github.com/semcon/semcon/analysis/theory"
)

// BoundTable is a table of bounds on the error beside the true error, one row per set of features.
type BoundTable []BoundRow

// BoundRow is one row.
type BoundRow struct {
	Name string
	theory.Comparison
}

// boundColumns are the table's columns after the name.
var boundColumns = []struct {
	title string
	value func(theory.Comparison) float64
}{
	{"printed bound", func(a theory.Comparison) float64 { return a.Printed.Value }},
	{"erratum E14", func(a theory.Comparison) float64 { return a.Repaired.First }},
	{"theorem 2", func(a theory.Comparison) float64 { return a.Repaired.Value }},
	{"theorem 1", func(a theory.Comparison) float64 { return a.Moments.Value }},
	{"theorem 3", func(a theory.Comparison) float64 { return a.Moments.Geometric }},
	{"true error", func(a theory.Comparison) float64 { return a.Error }},
}

// HTML is [Grid.HTML] of the table. A bound without margin is a dash. A printed bound below the true error is red, since it refutes the theorem;
// one outside the printed theorem's conditions is in brackets.
func (t BoundTable) HTML() string {
	g := Grid{Columns: []Column{{Title: "features", Align: "left"}}, Sections: make([]Section, 1)}
	for _, column := range boundColumns {
		g.Columns = append(g.Columns, Column{Title: column.title, Align: "right"})
	}
	for _, row := range t {
		cells := Plain(row.Name)
		for i, column := range boundColumns {
			value := column.value(row.Comparison)
			number := Run{Text: strconv.FormatFloat(value, 'g', 3, 64)}
			switch {
			case !isFinite(value):
				number.Text = "–"
			case i == 0 && !row.Printed.Domain:
				number.Text = "(" + number.Text + ")"
			case i == 0 && value < row.Error:
				number.Bold, number.Colour = true, "#D55E00"
			}
			cells = append(cells, Lines{{number}})
		}
		g.Sections[0].Rows = append(g.Sections[0].Rows, GridRow{Cells: cells})
	}
	return g.HTML()
}

// Curves draws the table's columns against xs, one number per row. Zeros are drawn at floor, as the axis is logarithmic; bounds without margin are
// gaps.
func (t BoundTable) Curves(label string, xs []float64, floor float64) Curves {
	f := Curves{X: label, Y: "bound on the error rate, or error", LogY: true}
	for i, column := range boundColumns {
		if i == 1 {
			continue // Theorem 2 with another constant.
		}
		series := Series{Name: column.title, X: xs}
		for _, row := range t {
			value := column.value(row.Comparison)
			if !isFinite(value) {
				value = math.NaN()
			}
			series.Y = append(series.Y, max(value, floor))
		}
		f.Series = append(f.Series, series)
	}
	return f
}
