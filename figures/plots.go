package figures

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// AccuracyDrop shows the accuracy that each method loses when its two views no longer show different parts of the image, ours beside the paper's.
type AccuracyDrop struct {
	Title   string       // E.g. the dataset and the profile.
	Methods []MethodDrop // From left to right.
}

// MethodDrop is what one method loses, in points of k-NN accuracy; positive if all transformations are better. Ours has one difference per seed.
type MethodDrop struct {
	Method  string
	Without Cell // All transformations minus all but the crop.
	Same    Cell // All transformations minus the same crop for both views.
}

// oneSeed explains the dots of seeds.
var oneSeed = legendEntry{name: "one seed", glyph: seedDot(grey)}

// sheet implements [Figure], with records of method, crop, then paper, mean, sd, n and values.
func (f AccuracyDrop) sheet() (sheet, error) {
	const without, same = look(0), look(1)
	p := newPanel("", "", "drop in k-NN accuracy (points)")
	p.X.Tick.Label.Font.Size = textSize
	c := chart{title: f.Title, height: 420, panels: []*panel{p}, records: [][]string{append([]string{"method", "crop"}, cellHeader...)}}
	c.legend = []legendEntry{
		{name: "no crop: ours, mean ± sd", glyph: without.marker(false)}, {name: "paper", glyph: without.marker(true)},
		{name: "same crop for both views: ours, mean ± sd", glyph: same.marker(false)}, {name: "paper", glyph: same.marker(true)}, oneSeed,
	}
	var names []string
	for _, method := range f.Methods {
		names = append(names, method.Method)
	}
	p.named(names)
	p.zero()
	for i, method := range f.Methods {
		x := float64(i)
		p.cell(method.Without, x-0.24, x-0.29, x-0.13, without, without)
		p.cell(method.Same, x+0.13, x+0.08, x+0.24, same, same)
		c.records = append(c.records, append([]string{method.Method, "without"}, method.Without.record()...), append([]string{method.Method, "same"}, method.Same.record()...))
	}
	p.ys.set(&p.Y)
	for i := 1; i < len(names); i++ { // A line between neighbours.
		x := float64(i) - 0.5
		p.line(draw.LineStyle{Color: lightGrey, Width: vg.Points(0.8)}, plotter.XY{X: x, Y: p.Y.Min}, plotter.XY{X: x, Y: p.Y.Max})
	}
	return c.sheet()
}

// AugmentationCurves shows accuracy against the number of transformations, ours and the paper's, with one panel per method and one y axis for all.
type AugmentationCurves struct {
	Title   string              // E.g. the dataset and the profile.
	Methods []AugmentationCurve // From left to right.
}

// AugmentationCurve is the accuracy of one method in percent: Cells[i] with Transformations[i] of them switched on.
type AugmentationCurve struct {
	Method          string
	Transformations []int
	Cells           []Cell
}

// sheet implements [Figure], with records of method, transformations, then paper, mean, sd, n and values.
func (f AugmentationCurves) sheet() (sheet, error) {
	if len(f.Methods) == 0 {
		return sheet{}, errors.New("no methods")
	}
	const ours, printed = look(0), look(1)
	c := chart{title: f.Title, height: 360, gap: 10, records: [][]string{append([]string{"method", "transformations"}, cellHeader...)}, legend: []legendEntry{
		{"ours, mean ± sd", ours.line(1.6), ours.marker(false)}, {"paper", printed.line(1.3), printed.marker(true)}, oneSeed,
	}}
	xs, ys := newExtent(), newExtent()
	for i, method := range f.Methods {
		if len(method.Transformations) != len(method.Cells) {
			return sheet{}, fmt.Errorf("method %q has %d numbers of transformations and %d cells", method.Method, len(method.Transformations), len(method.Cells))
		}
		p := newPanel(method.Method, "transformations", []string{"k-NN accuracy (%)", ""}[min(i, 1)])
		var ticks plot.ConstantTicks
		var means, papers plotter.XYs
		for j, cell := range method.Cells {
			x, name := float64(method.Transformations[j]), strconv.Itoa(method.Transformations[j])
			ticks = append(ticks, plot.Tick{Value: x, Label: name})
			means = append(means, plotter.XY{X: x, Y: stats.MeanInterval(cell.Ours).Mean})
			papers = append(papers, plotter.XY{X: x, Y: cell.Paper})
			xs.add(x-0.2, x)
			c.records = append(c.records, append([]string{method.Method, name}, cell.record()...))
		}
		p.ticks = ticks
		p.line(printed.line(1.3), papers...)
		p.line(ours.line(1.6), means...)
		for j, cell := range method.Cells {
			p.cell(cell, means[j].X, means[j].X-0.15, means[j].X, ours, printed)
		}
		ys.add(p.ys.low, p.ys.high)
		c.panels = append(c.panels, p)
	}
	for _, p := range c.panels {
		xs.set(&p.X)
		ys.set(&p.Y)
	}
	return c.sheet()
}

// DotPlot shows several numbers per named row, such as an error and the bounds on it, from 0 to 1, with one panel per group of rows.
type DotPlot struct {
	Title, Y string     // Y labels the common axis.
	Series   []string   // Names of the numbers of a row.
	Panels   []DotPanel // From left to right.
}

// DotPanel is a group of rows. Values[i][j] has the values of Series[j] in Rows[i], one per seed; none for no marker.
type DotPanel struct {
	Title  string
	Rows   []string
	Values [][][]float64
}

// sheet implements [Figure], with records of panel, row, series, then mean, sd, n and values.
func (f DotPlot) sheet() (sheet, error) {
	if len(f.Panels) == 0 {
		return sheet{}, errors.New("no panels")
	}
	c := chart{title: f.Title, height: 480, gap: 6, records: [][]string{append([]string{"panel", "row", "series"}, cellHeader[1:]...)}}
	marker := func(j int) draw.GlyphStyle { return look(j).marker(j > 0) }
	for j, name := range f.Series {
		c.legend = append(c.legend, legendEntry{name: name, glyph: marker(j)})
	}
	for i, panel := range f.Panels {
		if len(panel.Values) != len(panel.Rows) {
			return sheet{}, fmt.Errorf("panel %q has %d rows and values for %d", panel.Title, len(panel.Rows), len(panel.Values))
		}
		p := newPanel(panel.Title, "", []string{f.Y, ""}[min(i, 1)])
		var names []string
		for row, name := range panel.Rows {
			names = append(names, strings.ReplaceAll(name, "+", " + "))
			if len(panel.Values[row]) != len(f.Series) {
				return sheet{}, fmt.Errorf("panel %q, row %q has %d numbers for %d series", panel.Title, name, len(panel.Values[row]), len(f.Series))
			}
			for j, values := range panel.Values[row] {
				p.mark(marker(j), plotter.XY{X: float64(row) + 0.12*(float64(j)-float64(len(f.Series)-1)/2), Y: stats.MeanInterval(values).Mean})
				if len(values) > 0 {
					record := Cell{Paper: math.NaN(), Ours: values}.record()[1:]
					c.records = append(c.records, append([]string{panel.Title, name, f.Series[j]}, record...))
				}
			}
		}
		p.named(names)
		p.X.Tick.Label.Rotation = math.Pi / 2 // Upright, so that a dozen long names fit below a panel.
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YCenter
		p.Y.Min, p.Y.Max = -0.03, 1.03
		c.panels = append(c.panels, p)
	}
	return c.sheet()
}

// GainPlot shows what methods gain over a common baseline against a quantity that is varied: mean and 95 % interval over seeds.
type GainPlot struct {
	Title, X, Y string // X and Y label the axes.
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
	Real  bool      // The point's x was measured, not set: its marker is hollow, and no line leads to it.
}

// sheet implements [Figure], with records of series, x, whether it is real, mean, interval, values.
func (f GainPlot) sheet() (sheet, error) {
	p := newPanel("", f.X, f.Y)
	c := chart{title: f.Title, height: 420, panels: []*panel{p}, records: [][]string{{"series", "x", "real", "mean", "low", "high", "values"}}}
	xs := newExtent()
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
		line := look(i).line(1.3)
		c.legend = append(c.legend, legendEntry{series.Name, line, look(i).marker(false)})
		var means plotter.XYs
		for _, point := range series.Points {
			gain := stats.MeanInterval(point.Gains)
			at := plotter.XY{X: point.X + spread*(float64(i)-float64(len(f.Series)-1)/2), Y: gain.Mean}
			if !point.Real {
				means = append(means, at)
			}
			p.bar(draw.LineStyle{Color: line.Color, Width: vg.Points(1)}, 5, at, gain.Low, gain.High)
			p.mark(look(i).marker(point.Real), at)
			c.records = append(c.records, []string{series.Name, plain(point.X), strconv.FormatBool(point.Real), plain(gain.Mean), plain(gain.Low), plain(gain.High), joinPlain(point.Gains)})
		}
		if len(means) > 1 {
			p.line(line, means...)
		}
	}
	xs.set(&p.X)
	p.zero()
	p.ys.set(&p.Y)
	c.legend = append(c.legend, legendEntry{name: "mean and 95 % interval; hollow: the real teacher"})
	return c.sheet()
}

// TradeOff shows lines of the ablation in the plane of two tasks, ours on the left, the paper's on the right. The scales differ; compare relative positions.
type TradeOff struct {
	Title string
	X, Y  string         // Names of the tasks with their unit, e.g. "k-NN accuracy (%)".
	Lines []TradeOffLine // From first to last.
}

// TradeOffLine is one line of the ablation. X and Y have the same seeds in the same order.
type TradeOffLine struct {
	Name string // Drawn beside the point, so keep it short.
	X, Y Cell
}

// sheet implements [Figure], with records of line, axis, then paper, mean, sd, n and values.
func (f TradeOff) sheet() (sheet, error) {
	ours, paper := newPanel("ours, mean ± sd", f.X, f.Y), newPanel("paper", f.X, f.Y)
	c := chart{title: f.Title, height: 400, gap: vg.Points(12), panels: []*panel{ours, paper}, records: [][]string{append([]string{"line", "axis"}, cellHeader...)}}
	named := func(p *panel, glyph draw.GlyphStyle, at plotter.XY, name string) {
		if isFinite(at.X) && isFinite(at.Y) {
			style := []draw.TextStyle{sans(textSize, true, draw.XLeft, draw.YBottom)}
			p.mark(glyph, at)
			p.Add(&plotter.Labels{XYs: plotter.XYs{at}, Labels: []string{name}, TextStyle: style, Offset: vg.Point{X: vg.Points(6), Y: vg.Points(4)}})
		}
	}
	for i, line := range f.Lines {
		x, y := stats.MeanInterval(line.X.Ours), stats.MeanInterval(line.Y.Ours)
		if at := (plotter.XY{X: x.Mean, Y: y.Mean}); x.N == y.N {
			if isFinite(x.SD) && isFinite(y.SD) {
				style := seedDot(look(0).colour())
				p := draw.LineStyle{Color: style.Color, Width: vg.Points(1.2)}
				ours.Add(&plotter.XErrorBars{XYs: plotter.XYs{at}, XErrors: plotter.XErrors{{Low: x.SD, High: x.SD}}, LineStyle: p})
				ours.xs.add(x.Mean-x.SD, x.Mean+x.SD)
				ours.bar(p, 0, at, y.Mean-y.SD, y.Mean+y.SD)
			}
			named(ours, look(0).marker(false), at, line.Name)
		}
		named(paper, look(1).marker(true), plotter.XY{X: line.X.Paper, Y: line.Y.Paper}, line.Name)
		name := line.Name
		if name == "" {
			name = strconv.Itoa(i + 1)
		}
		c.records = append(c.records, append([]string{name, f.X}, line.X.record()...), append([]string{name, f.Y}, line.Y.record()...))
	}
	ours.fit()
	paper.fit()
	return c.sheet()
}
