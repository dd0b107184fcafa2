package figures

import (
	"image/color"
	"math"

	"github.com/semcon/semcon/analysis/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// oursAt draws our number at x: a filled marker at the mean, a bar of ± sd for two seeds or more, and a faint dot per seed beside it, so that dots
// and bar do not hide one another.
func oursAt(p *plot.Plot, x, dotsAt float64, values []float64, ink color.Color, shape shape) {
	ours := stats.MeanInterval(values)
	if !isFinite(ours.Mean) {
		return
	}
	mean := plotter.XYs{{X: x, Y: ours.Mean}}
	if len(values) > 1 {
		var dots plotter.XYs
		for _, value := range values {
			dots = append(dots, plotter.XY{X: dotsAt, Y: value})
		}
		seed := draw.GlyphStyle{Color: faint(ink), Radius: vg.Points(2.2), Shape: marker{circle, false}}
		p.Add(&plotter.Scatter{XYs: dots, GlyphStyle: seed})
		bar := &plotter.YErrorBars{XYs: mean, YErrors: plotter.YErrors{{Low: ours.SD, High: ours.SD}}, CapWidth: vg.Points(6)}
		bar.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(1.3)}
		p.Add(bar)
	}
	p.Add(&plotter.Scatter{XYs: mean, GlyphStyle: glyph(ink, shape, false)})
}

// paperAt draws the paper's number at x as a hollow marker.
func paperAt(p *plot.Plot, x, value float64, ink color.Color, shape shape) {
	if isFinite(value) {
		p.Add(&plotter.Scatter{XYs: plotter.XYs{{X: x, Y: value}}, GlyphStyle: glyph(ink, shape, true)})
	}
}

// include widens the extent by everything that a cell shows.
func (e *extent) include(cell Cell) {
	e.add(cell.Paper)
	e.add(cell.Ours...)
	if ours := stats.MeanInterval(cell.Ours); !math.IsNaN(ours.SD) {
		e.add(ours.Mean-ours.SD, ours.Mean+ours.SD)
	}
}
