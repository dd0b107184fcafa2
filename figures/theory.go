package figures

import (
	"math"
	"strconv"

	"github.com/semcon/semcon/analysis/theory"
)

// BoundCurves draws the printed theorem's bound and the repaired one against anything that the setting and the tails depend on, with a line at 1,
// above which a bound says nothing. Features are assumed isotropic, ω = r⁴/d, as the printed theorem presumes. A curve has a gap where its margin is
// not positive and where the printed theorem does not apply.
func BoundCurves(label string, xs []float64, at func(x float64) (theory.Setting, theory.Tails)) Curves {
	printed, repaired, one := Series{Name: "printed", X: xs}, Series{Name: "repaired", X: xs}, Series{Name: "says nothing above", X: xs}
	for _, x := range xs {
		setting, tails := at(x)
		values := [2]float64{math.NaN(), math.NaN()}
		if b := setting.Printed(tails); b.Domain && b.Margin > 0 && b.Value > 0 {
			values[0] = b.Value
		}
		if b := setting.Repaired(tails, isotropic(setting)); b.Domain && b.Margin > 0 && b.Value > 0 {
			values[1] = b.Value
		}
		printed.Y, repaired.Y, one.Y = append(printed.Y, values[0]), append(repaired.Y, values[1]), append(one.Y, 1)
	}
	return Curves{X: label, Y: "bound on the error rate", LogY: true, Series: []Series{printed, repaired, one}}
}

// isotropic is ω for features whose correlation matrix is r²/d·I.
func isotropic(s theory.Setting) float64 { return math.Pow(s.Radius, 4) / float64(s.Dim) }

// BoundHeatmaps are heatmaps of the printed and the repaired bound over two numbers: the decimal logarithm of the bound, from 10⁻⁴ to 1; grey where a
// margin is not positive or the theorem does not apply. Features are assumed isotropic.
func BoundHeatmaps(xLabel, yLabel string, xs, ys []float64, at func(x, y float64) (theory.Setting, theory.Tails)) HeatmapRow {
	maps := HeatmapRow{{Title: "printed"}, {Title: "repaired"}}
	for i := range maps {
		m := &maps[i]
		m.X, m.Y, m.Z, m.Xs, m.Ys, m.Low, m.High = xLabel, yLabel, "log10 of the bound", xs, ys, -4, 0
		m.Above, m.Missing = "vacuous: 1 or more", "no margin, or not applicable"
		for _, y := range ys {
			var row []float64
			for _, x := range xs {
				setting, tails := at(x, y)
				b := setting.Printed(tails).Bound
				if i == 1 {
					b = setting.Repaired(tails, isotropic(setting)).Bound
				}
				value := math.NaN()
				if b.Domain && b.Margin > 0 {
					value = math.Log10(max(b.Value, 1e-300))
				}
				row = append(row, value)
			}
			m.Values = append(m.Values, row)
		}
	}
	return maps
}

// PairParts draws what a pair of views adds to the terms of lemma sum_delta against its similarity, on the sphere of radius 1: to Δ1 and Δ(i,k) a pair of
// two images, to Δ2 a pair of one image, for two values of α (see [theory.Deltas]).
func PairParts() Curves {
	var xs []float64
	for i := range 81 {
		xs = append(xs, -1+float64(i)/40)
	}
	names := []string{"Δ1, Δ(i,k)", "Δ2, α = 1/4", "Δ2, α = 1/8"}
	return CurvesOf("s_ij", "a pair's part", names, xs, func(s float64) []float64 {
		return []float64{1 - s*s, -(1 - s) * (1 - s), 1 - (s-2)*(s-2)}
	})
}

// Feasibility is the heatmap of the smallest d_T/r² that the printed theorem admits over K/d and the decimal logarithm of n, in its corrected form
// (erratum E6). Above 1 no encoder meets it.
func Feasibility() Heatmap {
	m := Heatmap{X: "K/d", Y: "log10 n", Z: "least d_T / r²", Low: 0.7, High: 1, Above: "above 1: no encoder", Missing: ""}
	const scale = 1000 // K and d are whole numbers; a large K gives a fine ratio.
	for i := range 61 {
		m.Ys = append(m.Ys, 1+float64(i)/15)
		m.Values = append(m.Values, nil)
		for j := range 61 {
			if i == 0 {
				m.Xs = append(m.Xs, 1+float64(j)/60)
			}
			s := theory.Setting{Classes: int(math.Round(scale * m.Xs[j])), Dim: scale, Images: int(math.Round(math.Pow(10, m.Ys[i]))), Radius: 1}
			m.Values[i] = append(m.Values[i], s.LeastClassThreshold())
		}
	}
	return m
}

// TailCurves draws p_T against δ_T and q_T against d_T, the supremum and the mean over images; from is the smallest threshold shown, as a share of
// the largest.
func TailCurves(c theory.TailCurves, from float64) CurvesRow {
	first := 0
	for first < len(c.Thresholds)-2 && c.Thresholds[first] < from*c.Thresholds[len(c.Thresholds)-1] {
		first++
	}
	x := c.Thresholds[first:]
	return CurvesRow{
		{X: "δ_T", Y: "p_T", Series: []Series{{"supremum", x, c.View[first:]}, {"mean over images", x, c.MeanView[first:]}}},
		{X: "d_T", Y: "q_T", Series: []Series{{"supremum", x, c.Class[first:]}, {"mean over images", x, c.MeanClass[first:]}}},
	}
}

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
