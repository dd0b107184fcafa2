package figures

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// AccuracyDrop shows the accuracy that each method loses when its two views no longer show different parts of the image: ours with its seeds beside
// the paper's.
type AccuracyDrop struct {
	// Title stands above the plot, e.g. the dataset and the profile.
	Title string
	// Methods are drawn from left to right.
	Methods []MethodDrop
}

// MethodDrop is what one method loses, in points of k-NN accuracy; positive if the full set of transformations is better. Ours has one difference per
// seed.
type MethodDrop struct {
	Method string
	// Without is all transformations minus all but the crop.
	Without Cell
	// Same is all transformations minus the same crop for both views.
	Same Cell
}

// Render implements [Figure].
func (f AccuracyDrop) Render() (svg, png []byte, err error) { return rendered(f) }

func (f AccuracyDrop) page() (sheet, error) {
	p := newPlot("", "drop in k-NN accuracy (points)")
	zero := draw.LineStyle{Color: grey, Width: vg.Points(0.8)}
	p.Add(&plotter.Line{XYs: plotter.XYs{{X: -0.5, Y: 0}, {X: float64(len(f.Methods)) - 0.5, Y: 0}}, LineStyle: zero})
	ys := newExtent()
	ys.add(0)
	var ticks []plot.Tick
	for i, method := range f.Methods {
		x := float64(i)
		ticks = append(ticks, plot.Tick{Value: x, Label: method.Method})
		oursAt(p, x-0.24, x-0.29, method.Without.Ours, palette[0], circle)
		paperAt(p, x-0.13, method.Without.Paper, palette[0], circle)
		oursAt(p, x+0.13, x+0.08, method.Same.Ours, palette[1], square)
		paperAt(p, x+0.24, method.Same.Paper, palette[1], square)
		ys.include(method.Without)
		ys.include(method.Same)
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Tick.Label.Font.Size = textSize
	p.X.Min, p.X.Max = -0.5, float64(max(len(f.Methods), 1))-0.5
	setRange(&p.Y, ys.low, ys.high)
	for i := 1; i < len(f.Methods); i++ { // A line between neighbours.
		x := float64(i) - 0.5
		p.Add(&plotter.Line{XYs: plotter.XYs{{X: x, Y: p.Y.Min}, {X: x, Y: p.Y.Max}}, LineStyle: draw.LineStyle{Color: lightGrey, Width: vg.Points(0.8)}})
	}
	entries := []legendEntry{
		{name: "no crop: ours, mean ± sd", glyph: glyph(palette[0], circle, false)},
		{name: "paper", glyph: glyph(palette[0], circle, true)},
		{name: "same crop for both views: ours, mean ± sd", glyph: glyph(palette[1], square, false)},
		{name: "paper", glyph: glyph(palette[1], square, true)},
		{name: "one seed", glyph: draw.GlyphStyle{Color: faint(grey), Radius: vg.Points(2.2), Shape: marker{circle, false}}},
	}
	return newSheet(width, 420*pixel, func(c draw.Canvas) { p.Draw(drawHead(page(c), f.Title, entries)) })
}

// CSV implements [Figure]: method, crop, then paper, mean, sd, n and values.
func (f AccuracyDrop) CSV() string {
	records := [][]string{append([]string{"method", "crop"}, cellHeader...)}
	for _, method := range f.Methods {
		records = append(records,
			append([]string{method.Method, "without"}, method.Without.record()...),
			append([]string{method.Method, "same"}, method.Same.record()...))
	}
	return csvText(records)
}
