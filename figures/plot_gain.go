package figures

import (
	"fmt"
	"strconv"

	"github.com/semcon/semcon/analysis/stats"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// GainPlot shows what several methods gain over a common baseline, against a quantity that is varied, such as the quality of a teacher: mean and 95 %
// interval over seeds.
type GainPlot struct {
	// Title stands above the plot; X and Y label the axes.
	Title, X, Y string
	Series      []GainSeries
}

// GainSeries is one method.
type GainSeries struct {
	Name   string
	Points []GainPoint
}

// GainPoint is what a method gains at one x.
type GainPoint struct {
	X     float64
	Gains []float64 // One per seed.
	// Real marks a point whose x was measured, not set: its marker is hollow, and no line leads to it.
	Real bool
}

// Render implements [Figure].
func (f GainPlot) Render() (svg, png []byte, err error) { return rendered(f) }

func (f GainPlot) page() (sheet, error) {
	p := newPlot(f.X, f.Y)
	xs, ys := newExtent(), newExtent()
	ys.add(0)
	var entries []legendEntry
	for _, series := range f.Series {
		for _, point := range series.Points {
			if len(point.Gains) == 0 || !isFinite(point.X) {
				return sheet{}, fmt.Errorf("series %q has a point at %v with %d gains", series.Name, point.X, len(point.Gains))
			}
			xs.add(point.X)
		}
	}
	spread := 0.008 * max(xs.high-xs.low, 0) // Series are shifted sideways, so that their bars do not hide one another.
	for i, series := range f.Series {
		ink, look := palette[i%len(palette)], shape(i)%shapes
		line := draw.LineStyle{Color: ink, Width: vg.Points(1.3), Dashes: dashes[i%len(dashes)]}
		entries = append(entries, legendEntry{series.Name, line, glyph(ink, look, false)})
		var means plotter.XYs
		for _, point := range series.Points {
			gain := stats.MeanInterval(point.Gains)
			at := plotter.XYs{{X: point.X + spread*(float64(i)-float64(len(f.Series)-1)/2), Y: gain.Mean}}
			if !point.Real {
				means = append(means, at[0])
			}
			ys.add(gain.Mean, gain.Low, gain.High)
			if gain.N > 1 {
				bar := &plotter.YErrorBars{XYs: at, YErrors: plotter.YErrors{{Low: gain.Mean - gain.Low, High: gain.High - gain.Mean}}, CapWidth: vg.Points(5)}
				bar.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(1)}
				p.Add(bar)
			}
			p.Add(&plotter.Scatter{XYs: at, GlyphStyle: glyph(ink, look, point.Real)})
		}
		if len(means) > 1 {
			p.Add(&plotter.Line{XYs: means, LineStyle: line})
		}
	}
	setRange(&p.X, xs.low, xs.high)
	setRange(&p.Y, ys.low, ys.high)
	zero := draw.LineStyle{Color: grey, Width: vg.Points(0.8)}
	p.Add(&plotter.Line{XYs: plotter.XYs{{X: p.X.Min, Y: 0}, {X: p.X.Max, Y: 0}}, LineStyle: zero})
	entries = append(entries, legendEntry{name: "mean and 95 % interval; hollow: the real teacher"})
	return newSheet(width, 420*pixel, func(c draw.Canvas) { p.Draw(drawHead(page(c), f.Title, entries)) })
}

// CSV implements [Figure]: series, x, whether it is real, mean, interval, values.
func (f GainPlot) CSV() string {
	records := [][]string{{"series", "x", "real", "mean", "low", "high", "values"}}
	for _, series := range f.Series {
		for _, point := range series.Points {
			gain := stats.MeanInterval(point.Gains)
			records = append(records, []string{series.Name, plain(point.X), strconv.FormatBool(point.Real), plain(gain.Mean), plain(gain.Low), plain(gain.High), joinPlain(point.Gains)})
		}
	}
	return csvText(records)
}
