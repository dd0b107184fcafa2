package figures

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/theory"
)

// Names of the printed theorem's bound and of the repaired one in figures.
var boundNames = []string{"printed", "repaired"}

// bothBounds are the printed theorem's bound and the repaired one, NaN where the margin is not positive or the printed theorem does not apply. Features are assumed
// isotropic, ω = r⁴/d, as the printed theorem presumes.
func bothBounds(s theory.Setting, tails theory.Tails) []float64 {
	bounds := []theory.Bound{s.Printed(tails), s.Repaired(tails, math.Pow(s.Radius, 4)/float64(s.Dim)).Bound}
	return lo.Map(bounds, func(b theory.Bound, _ int) float64 { return lo.Ternary(b.Domain && b.Margin > 0, b.Value, math.NaN()) })
}

// BoundCurves draws both bounds against anything that the setting and the tails depend on, with a line at 1, above which a bound says nothing.
func BoundCurves(label string, xs []float64, at func(x float64) (theory.Setting, theory.Tails)) Curves {
	f := CurvesOf(label, "bound on the error rate", append(slices.Clone(boundNames), "says nothing above"), xs, func(x float64) []float64 {
		positive := func(bound float64, _ int) float64 { return lo.Ternary(bound > 0, bound, math.NaN()) } // The axis is logarithmic.
		return append(lo.Map(bothBounds(at(x)), positive), 1)
	})
	f.LogY = true
	return f
}

// BoundHeatmaps are heatmaps of the decimal logarithm of both bounds over two numbers, from 10⁻⁴ to 1; orange where the bound is above 1, and grey where there is no margin or the theorem does not apply.
func BoundHeatmaps(xLabel, yLabel string, xs, ys []float64, at func(x, y float64) (theory.Setting, theory.Tails)) (maps HeatmapRow) {
	for i, name := range boundNames {
		maps = append(maps, Heatmap{
			Title: name, X: xLabel, Y: yLabel, Z: "log10 of the bound", Xs: xs, Ys: ys, Low: -4, High: 0, Above: "vacuous: 1 or more", Missing: "no margin, or not applicable",
			Values: valuesAt(xs, ys, func(x, y float64) float64 { return math.Log10(max(bothBounds(at(x, y))[i], 1e-300)) }),
		})
	}
	return maps
}

// valuesAt are the values of a [Heatmap].
func valuesAt(xs, ys []float64, value func(x, y float64) float64) [][]float64 {
	return lo.Map(ys, func(y float64, _ int) []float64 {
		return lo.Map(xs, func(x float64, _ int) float64 { return value(x, y) })
	})
}

// Feasibility is the heatmap of the smallest d_T/r² that the printed theorem admits, as corrected in erratum E6. Above 1 no encoder meets it.
func Feasibility() Heatmap {
	const scale, points = 1000, 61 // K and d are whole numbers; a large K gives a fine ratio.
	m := Heatmap{X: "K/d", Y: "log10 n", Z: "least d_T / r²", Low: 0.7, High: 1, Above: "above 1: no encoder"}
	for i := range points {
		m.Xs, m.Ys = append(m.Xs, 1+float64(i)/60), append(m.Ys, 1+float64(i)/15)
	}
	m.Values = valuesAt(m.Xs, m.Ys, func(x, y float64) float64 {
		return theory.Setting{Classes: int(math.Round(scale * x)), Dim: scale, Images: int(math.Round(math.Pow(10, y))), Radius: 1}.LeastClassThreshold()
	})
	return m
}

// TailCurves draws p_T against δ_T and q_T against d_T, from a share of the largest threshold on: the supremum and the mean over images.
func TailCurves(c theory.TailCurves, from float64) CurvesRow {
	last := len(c.Thresholds) - 1
	first := min(sort.SearchFloat64s(c.Thresholds, from*c.Thresholds[last]), max(0, last-1))
	x := c.Thresholds[first:]
	return CurvesRow{
		{X: "δ_T", Y: "p_T", Series: []Series{{Name: "supremum", X: x, Y: c.View[first:]}, {Name: "mean over images", X: x, Y: c.MeanView[first:]}}},
		{X: "d_T", Y: "q_T", Series: []Series{{Name: "supremum", X: x, Y: c.Class[first:]}, {Name: "mean over images", X: x, Y: c.MeanClass[first:]}}},
	}
}

// BoundTable is a table of bounds on the error beside the true error, one row per set of features.
type BoundTable []BoundRow

// BoundRow is one row.
type BoundRow struct {
	Name string
	theory.Comparison
}

// boundColumns are the table's columns after the name, and values the numbers of a row in them.
var boundColumns = []string{"printed bound", "erratum E14", "theorem 2", "theorem 1", "theorem 3", "true error"}

func (r BoundRow) values() []float64 {
	return []float64{r.Printed.Value, r.Repaired.First, r.Repaired.Value, r.Moments.Value, r.Moments.Geometric, r.Error}
}

// HTML is [Grid.HTML] of the table. A printed bound below the true error is red, since it refutes the theorem; one outside its conditions is in brackets.
func (t BoundTable) HTML() string {
	g := Grid{Columns: []Column{{Title: "features", Align: "left"}}, Sections: make([]Section, 1)}
	g.Columns = append(g.Columns, lo.Map(boundColumns, func(name string, _ int) Column { return Column{Title: name, Align: "right"} })...)
	for _, row := range t {
		cells := Plain(row.Name)
		for i, value := range row.values() {
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

// Curves draws the table's columns against xs, one number per row. Zeros are drawn at floor, as the axis is logarithmic.
func (t BoundTable) Curves(label string, xs []float64, floor float64) Curves {
	f := Curves{X: label, Y: "bound on the error rate, or error", LogY: true, Note: fmt.Sprintf("less than %g is drawn there", floor)}
	for i, row := range t {
		for j, value := range row.values() {
			if boundColumns[j] != "erratum E14" { // Theorem 2 with another constant.
				AddPoint(&f.Series, boundColumns[j], xs[i], lo.Ternary(isFinite(value), max(value, floor), math.NaN()))
			}
		}
	}
	return f
}
