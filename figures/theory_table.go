package figures

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"

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

// HTML writes the table for a notebook. A bound without margin is a dash. A printed bound below the true error is red, since it refutes the theorem;
// one outside the printed theorem's conditions is in brackets.
func (t BoundTable) HTML() string {
	var b strings.Builder
	b.WriteString("<table style=\"border-collapse:collapse\">\n<thead><tr><th style=\"text-align:left\">features</th>")
	for _, column := range boundColumns {
		fmt.Fprintf(&b, "<th style=\"text-align:right;padding:2px 10px\">%s</th>", column.title)
	}
	b.WriteString("</tr></thead>\n<tbody>\n")
	for _, row := range t {
		fmt.Fprintf(&b, "<tr><td style=\"text-align:left\">%s</td>", html.EscapeString(row.Name))
		for i, column := range boundColumns {
			value := column.value(row.Comparison)
			text, style := strconv.FormatFloat(value, 'g', 3, 64), ""
			if math.IsInf(value, 0) || math.IsNaN(value) {
				text = "–"
			} else if i == 0 && !row.Printed.Domain {
				text = "(" + text + ")"
			} else if i == 0 && value < row.Error {
				style = ";color:#D55E00;font-weight:bold"
			}
			fmt.Fprintf(&b, "<td style=\"text-align:right;padding:2px 10px%s\">%s</td>", style, text)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table>\n")
	return b.String()
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
