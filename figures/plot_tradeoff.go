package figures

import (
	"strconv"

	"github.com/semcon/semcon/analysis/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// TradeOff shows each line of the ablation in the plane of two tasks: ours on the left with its seeds, the paper's on the right. The scales differ;
// compare the lines' relative positions.
type TradeOff struct {
	// Title stands above the panels.
	Title string
	// X and Y name the tasks with their unit, e.g. "k-NN accuracy (%)".
	X, Y string
	// Lines are given from first to last.
	Lines []TradeOffLine
}

// TradeOffLine is one line of the ablation. X and Y have the same seeds in the same order.
type TradeOffLine struct {
	Name string // Drawn beside the point, so keep it short.
	X, Y Cell
}

// Render implements [Figure].
func (f TradeOff) Render() (svg, png []byte, err error) { return rendered(f) }

func (f TradeOff) page() (sheet, error) {
	ours, paper := newPlot(f.X, f.Y), newPlot(f.X, f.Y)
	ours.Title.Text, paper.Title.Text = "ours, mean ± sd", "paper"
	ours.Title.TextStyle, paper.Title.TextStyle = sans(textSize, false), sans(textSize, false)
	ranges := [2][2]extent{{newExtent(), newExtent()}, {newExtent(), newExtent()}}
	for _, line := range f.Lines {
		x, y := stats.MeanInterval(line.X.Ours), stats.MeanInterval(line.Y.Ours)
		if len(line.X.Ours) > 0 && len(line.X.Ours) == len(line.Y.Ours) && isFinite(x.Mean) && isFinite(y.Mean) {
			point := plotter.XYs{{X: x.Mean, Y: y.Mean}}
			if len(line.X.Ours) > 1 {
				style := draw.LineStyle{Color: faint(palette[0]), Width: vg.Points(1.2)}
				across := &plotter.XErrorBars{XYs: point, XErrors: plotter.XErrors{{Low: x.SD, High: x.SD}}, LineStyle: style}
				up := &plotter.YErrorBars{XYs: point, YErrors: plotter.YErrors{{Low: y.SD, High: y.SD}}, LineStyle: style}
				ours.Add(across, up)
				ranges[0][0].add(x.Mean-x.SD, x.Mean+x.SD)
				ranges[0][1].add(y.Mean-y.SD, y.Mean+y.SD)
			}
			ours.Add(&plotter.Scatter{XYs: point, GlyphStyle: glyph(palette[0], circle, false)}, named(point, line.Name))
			ranges[0][0].add(x.Mean)
			ranges[0][1].add(y.Mean)
		}
		if isFinite(line.X.Paper) && isFinite(line.Y.Paper) {
			point := plotter.XYs{{X: line.X.Paper, Y: line.Y.Paper}}
			paper.Add(&plotter.Scatter{XYs: point, GlyphStyle: glyph(palette[1], circle, true)}, named(point, line.Name))
			ranges[1][0].add(line.X.Paper)
			ranges[1][1].add(line.Y.Paper)
		}
	}
	for i, p := range []*plot.Plot{ours, paper} {
		setRange(&p.X, ranges[i][0].low, ranges[i][0].high)
		setRange(&p.Y, ranges[i][1].low, ranges[i][1].high)
	}
	return newSheet(width, 400*pixel, func(c draw.Canvas) {
		c = draw.Crop(drawHead(page(c), f.Title, nil), 0, 0, 0, -vg.Points(10)) // Room between the titles.
		middle := (c.Min.X + c.Max.X) / 2
		ours.Draw(draw.Crop(c, 0, middle-c.Max.X-vg.Points(6), 0, 0))
		paper.Draw(draw.Crop(c, middle-c.Min.X+vg.Points(6), 0, 0, 0))
	})
}

// named writes a name beside a point.
func named(point plotter.XYs, name string) *plotter.Labels {
	style := sans(textSize, true)
	return &plotter.Labels{XYs: point, Labels: []string{name}, TextStyle: []draw.TextStyle{style}, Offset: vg.Point{X: vg.Points(6), Y: vg.Points(4)}}
}

// CSV implements [Figure]: line, axis, then paper, mean, sd, n and values.
func (f TradeOff) CSV() string {
	records := [][]string{append([]string{"line", "axis"}, cellHeader...)}
	for i, line := range f.Lines {
		name := line.Name
		if name == "" {
			name = strconv.Itoa(i + 1)
		}
		records = append(records, append([]string{name, f.X}, line.X.record()...), append([]string{name, f.Y}, line.Y.record()...))
	}
	return csvText(records)
}
