package figures

import (
	"math"
	"slices"
	"strconv"

	"github.com/semcon/semcon/analysis/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// chart is panels side by side below a title and a legend. All plots with axes are charts.
type chart struct {
	title   string
	legend  []legendEntry
	height  vg.Length // In pixels.
	gap     vg.Length // Between panels.
	scale   *Heatmap  // Its colours stand on the right; nil for none.
	panels  []*panel
	records [][]string
}

// panel is a plot in a chart. What is drawn widens its ranges, unless they are set.
type panel struct {
	*plot.Plot
	title  string
	legend []legendEntry
	ticks  plot.Ticker // Of the x axis; nil for as many as have room.
	xs, ys extent
}

// newPanel returns a panel with the axes, fonts and grid of every figure. Its name stands above it.
func newPanel(name, x, y string) *panel {
	p := &panel{Plot: plot.New(), xs: newExtent(), ys: newExtent()}
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		label, tick := &axis.Label.TextStyle, &axis.Tick.Label
		*label, *tick = sans(textSize, false, label.XAlign, label.YAlign), sans(tickSize, false, tick.XAlign, tick.YAlign)
		axis.Label.Padding = 4
		axis.Tick.Length = 4
		axis.Tick.Marker = plot.TickerFunc(niceTicks)
	}
	p.Title.Text, p.Title.TextStyle, p.Title.Padding = name, sans(textSize, true, draw.XCenter, draw.YTop), 4
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = lightGrey
	p.Add(grid)
	return p
}

// named labels the x axis with names at 0, 1, 2 and so on.
func (p *panel) named(names []string) {
	var ticks plot.ConstantTicks
	for i, name := range names {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: name})
	}
	p.ticks = ticks
	p.X.Min, p.X.Max = -0.5, float64(max(len(names), 1))-0.5
}

// cover widens the ranges by points.
func (p *panel) cover(points ...plotter.XY) {
	for _, at := range points {
		p.xs.add(at.X)
		p.ys.add(at.Y)
	}
}

// line draws a line through the points that are numbers.
func (p *panel) line(style draw.LineStyle, points ...plotter.XY) {
	points = slices.DeleteFunc(slices.Clone(points), notFinite)
	p.Add(&plotter.Line{XYs: points, LineStyle: style})
	p.cover(points...)
}

// mark draws a marker at each of the points that are numbers.
func (p *panel) mark(style draw.GlyphStyle, points ...plotter.XY) {
	points = slices.DeleteFunc(slices.Clone(points), notFinite)
	p.Add(&plotter.Scatter{XYs: points, GlyphStyle: style})
	p.cover(points...)
}

// bar draws a vertical bar around a point, from low to high, if these are numbers.
func (p *panel) bar(style draw.LineStyle, cap float64, at plotter.XY, low, high float64) {
	if isFinite(low) && isFinite(high) {
		errors := plotter.YErrors{{Low: at.Y - low, High: high - at.Y}}
		p.Add(&plotter.YErrorBars{XYs: plotter.XYs{at}, YErrors: errors, LineStyle: style, CapWidth: vg.Points(cap)})
		p.ys.add(low, high)
	}
}

// cell draws ours at x, a filled marker with a bar of ± sd, beside it a faint dot per seed at seeds, and at paper the paper's number as a hollow marker.
func (p *panel) cell(c Cell, x, seeds, paper float64, ours, printed look) {
	if mean := stats.MeanInterval(c.Ours); isFinite(mean.Mean) {
		if len(c.Ours) > 1 {
			for _, value := range c.Ours {
				p.mark(seedDot(ours.colour()), plotter.XY{X: seeds, Y: value})
			}
			p.bar(draw.LineStyle{Color: ours.colour(), Width: vg.Points(1.3)}, 6, plotter.XY{X: x, Y: mean.Mean}, mean.Mean-mean.SD, mean.Mean+mean.SD)
		}
		p.mark(ours.marker(false), plotter.XY{X: x, Y: mean.Mean})
	}
	p.mark(printed.marker(true), plotter.XY{X: paper, Y: c.Paper})
}

// zero draws a line at 0 across the panel, whose x axis has its range.
func (p *panel) zero() {
	p.Add(&plotter.Line{XYs: plotter.XYs{{X: p.X.Min}, {X: p.X.Max}}, LineStyle: draw.LineStyle{Color: grey, Width: vg.Points(0.8)}})
	p.ys.add(0)
}

// fit sets the ranges to what is drawn.
func (p *panel) fit() {
	p.xs.set(&p.X)
	p.ys.set(&p.Y)
}

// sheet lays the panels out. The first one is wider, for its label of the y axis, if the others have none.
func (f chart) sheet() (sheet, error) {
	return sheet{width, f.height * pixel, f.records, func(c draw.Canvas) {
		c = drawHead(page(c), f.title, f.legend)
		if f.scale != nil {
			const bar = 74
			f.scale.drawScale(draw.Crop(c, c.Size().X-bar, 0, 24, -40))
			c = draw.Crop(c, 0, -bar-f.gap, 0, 0)
		}
		label := vg.Length(0)
		if len(f.panels) > 1 && f.panels[1].Y.Label.Text == "" {
			label = 18
		}
		n := vg.Length(len(f.panels))
		wide := (c.Size().X - label - f.gap*(n-1)) / n
		left := c.Min.X
		for _, p := range f.panels {
			right := left + label + wide
			at := drawHead(draw.Crop(c, left-c.Min.X, right-c.Max.X, 0, 0), p.title, p.legend)
			if p.X.Tick.Marker = p.ticks; p.ticks == nil {
				p.X.Tick.Marker = plot.TickerFunc(niceTicks)
				p.X.Tick.Marker = sparseTicks(p.X.Tick.Label, p.DataCanvas(at).Size().X)
			}
			p.Draw(at)
			left, label = right+f.gap, 0
		}
	}}, nil
}

// extent is the range of the numbers added; low > high if there are none.
type extent struct{ low, high float64 }

func newExtent() extent { return extent{math.Inf(1), math.Inf(-1)} }

func (e *extent) add(values ...float64) {
	for _, value := range values {
		if isFinite(value) {
			e.low, e.high = min(e.low, value), max(e.high, value)
		}
	}
}

// set makes the range that of an axis, with a margin of 5 %; without numbers the axis is from 0 to 1.
func (e extent) set(axis *plot.Axis) {
	if e.low > e.high {
		e.low, e.high = 0, 1
	}
	margin := 0.05 * (e.high - e.low)
	if margin == 0 {
		margin = 0.05 * math.Abs(e.low)
	}
	if margin == 0 {
		margin = 1
	}
	axis.Min, axis.Max = e.low-margin, e.high+margin
}

func notFinite(at plotter.XY) bool { return !isFinite(at.X) || !isFinite(at.Y) }

func isFinite(value float64) bool { return !math.IsNaN(value) && !math.IsInf(value, 0) }

// niceTicks puts about five labels at multiples of 1, 2 or 5 times a power of ten.
func niceTicks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/5)))
	for _, factor := range []float64{2, 2.5, 2} { // 2, 5, 10 times the power.
		if (high-low)/step <= 7 {
			break
		}
		step *= factor
	}
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var ticks []plot.Tick
	for i := math.Ceil(low / step); i*step <= high; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: tickLabel(i*step, digits)})
	}
	return ticks
}

// sparseTicks are niceTicks of an axis of some width. Where their labels would touch, only every second, fifth or tenth has one.
func sparseTicks(style text.Style, width vg.Length) plot.TickerFunc {
	return func(low, high float64) []plot.Tick {
		ticks := niceTicks(low, high)
		if len(ticks) < 2 {
			return ticks
		}
		step, widest := ticks[1].Value-ticks[0].Value, vg.Length(0)
		for _, tick := range ticks {
			widest = max(widest, style.Width(tick.Label))
		}
		apart, every := width*vg.Length(step/(high-low)), 1
		for _, every = range []int{1, 2, 5, 10} {
			if vg.Length(every)*apart > widest+4 {
				break
			}
		}
		for i := range ticks {
			if int(math.Round(ticks[i].Value/step))%every != 0 {
				ticks[i].Label = ""
			}
		}
		return ticks
	}
}

// tickLabel writes plain numbers up to a million; beyond that, and below a ten-thousandth, it uses an exponent.
func tickLabel(value float64, digits int) string {
	if math.Abs(value) >= 1e6 || digits > 4 {
		return strconv.FormatFloat(value, 'g', 3, 64)
	}
	return decimal(value, digits)
}

// logTicks labels 1, 2 and 5 times powers of ten: over many decades only the powers, over less than half a decade the same as on a linear axis.
func logTicks(low, high float64) []plot.Tick {
	decades := math.Log10(high / low)
	if decades < 0.5 {
		return niceTicks(low, high)
	}
	factors := []float64{1, 2, 5}
	if decades > 3 {
		factors = factors[:1]
	}
	var ticks []plot.Tick
	for power := math.Floor(math.Log10(low)); power <= math.Log10(high); power++ {
		for _, factor := range factors {
			if value := factor * math.Pow(10, power); value >= low && value <= high {
				ticks = append(ticks, plot.Tick{Value: value, Label: tickLabel(value, max(0, int(-power)))})
			}
		}
	}
	return ticks
}
