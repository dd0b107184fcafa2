package figures

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
)

// DotPlot shows several numbers per named row above one another, such as an error and the bounds on it, from 0 to 1, with one panel per group of
// rows.
type DotPlot struct {
	// Title stands above the panels; Y labels their common axis.
	Title, Y string
	// Series name the numbers of a row.
	Series []string
	// Panels are drawn from left to right.
	Panels []DotPanel
}

// DotPanel is a group of rows. Values[i][j] has the values of Series[j] in Rows[i], one per seed; none for no marker.
type DotPanel struct {
	Title  string
	Rows   []string
	Values [][][]float64
}

// Render implements [Figure].
func (f DotPlot) Render() (svg, png []byte, err error) { return rendered(f) }

func (f DotPlot) page() (sheet, error) {
	if len(f.Panels) == 0 {
		return sheet{}, errors.New("no panels")
	}
	var entries []legendEntry
	for j, name := range f.Series {
		entries = append(entries, legendEntry{name: name, glyph: glyph(palette[j%len(palette)], shape(j)%shapes, j > 0)})
	}
	plots := make([]*plot.Plot, len(f.Panels))
	for i, panel := range f.Panels {
		if len(panel.Values) != len(panel.Rows) {
			return sheet{}, fmt.Errorf("panel %q has %d rows and values for %d", panel.Title, len(panel.Rows), len(panel.Values))
		}
		label := ""
		if i == 0 {
			label = f.Y
		}
		p := newPlot("", label)
		p.Title.Text, p.Title.TextStyle = panel.Title, sans(textSize, true)
		p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = draw.XCenter, draw.YTop
		p.Title.Padding = 4
		var ticks []plot.Tick
		for row, name := range panel.Rows {
			ticks = append(ticks, plot.Tick{Value: float64(row), Label: strings.ReplaceAll(name, "+", " + ")})
			if len(panel.Values[row]) != len(f.Series) {
				return sheet{}, fmt.Errorf("panel %q, row %q has %d numbers for %d series", panel.Title, name, len(panel.Values[row]), len(f.Series))
			}
			for j, values := range panel.Values[row] {
				if mean := stats.MeanInterval(values).Mean; isFinite(mean) {
					at := plotter.XYs{{X: float64(row) + 0.12*(float64(j)-float64(len(f.Series)-1)/2), Y: mean}}
					p.Add(&plotter.Scatter{XYs: at, GlyphStyle: glyph(palette[j%len(palette)], shape(j)%shapes, j > 0)})
				}
			}
		}
		p.X.Tick.Marker = plot.ConstantTicks(ticks)
		p.X.Tick.Label.Rotation = math.Pi / 2 // Upright, so that a dozen long names fit below a panel.
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YCenter
		p.X.Min, p.X.Max = -0.5, float64(max(len(panel.Rows), 1))-0.5
		p.Y.Min, p.Y.Max = -0.03, 1.03
		plots[i] = p
	}
	return newSheet(width, 480*pixel, func(c draw.Canvas) {
		c = drawHead(page(c), f.Title, entries)
		drawRow(c, plots, 6)
	})
}

// CSV implements [Figure]: panel, row, series, then mean, sd, n and values.
func (f DotPlot) CSV() string {
	records := [][]string{append([]string{"panel", "row", "series"}, cellHeader[1:]...)}
	for _, panel := range f.Panels {
		for i, row := range panel.Rows {
			for j, values := range panel.Values[i] {
				if len(values) > 0 {
					record := Cell{Paper: math.NaN(), Ours: values}.record()[1:]
					records = append(records, append([]string{panel.Title, row, f.Series[j]}, record...))
				}
			}
		}
	}
	return csvText(records)
}
