package figures

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"
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
	seeds  bool        // There are dots of seeds.
}

// newPanel returns a panel with the axes, fonts and grid of every figure.
func newPanel(x, y string) *panel {
	p := &panel{Plot: plot.New()}
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		label, tick := &axis.Label.TextStyle, &axis.Tick.Label
		*label, *tick = sans(textSize, false, label.XAlign, label.YAlign), sans(tickSize, false, tick.XAlign, tick.YAlign)
		axis.Label.Padding = 4
		axis.Tick.Length = 4
		axis.Tick.Marker = plot.TickerFunc(niceTicks)
	}
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = lightGrey
	p.Add(grid)
	return p
}

// named labels the x axis with names at 0, 1, 2 and so on. If they do not fit into the room, they are upright, and it returns how much higher the panel must be.
func (p *panel) named(names []string, room vg.Length) (higher vg.Length) {
	var ticks plot.ConstantTicks
	widest := vg.Length(0)
	for i, name := range names {
		name = strings.ReplaceAll(name, "+", " + ")
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: name})
		widest = max(widest, p.X.Tick.Label.Width(name)+8)
	}
	if names == nil {
		return 0
	}
	p.ticks = ticks
	p.X.Min, p.X.Max = min(p.X.Min, -0.4), max(p.X.Max, float64(len(names))-0.6)
	if widest*vg.Length(len(names)) <= room {
		return 0
	}
	p.X.Tick.Label.Rotation = math.Pi / 2
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YCenter
	return widest
}

// spread draws the bars of a series with the values of seeds, and a faint dot for each value left of a bar of ± sd. shift is how far the series is moved sideways.
func (p *panel) spread(s Series, l look, shift float64) {
	style := draw.LineStyle{Color: l.colour(), Width: vg.Points(1.2)}
	for i, values := range s.Values {
		y := stats.MeanInterval(values)
		at, low, high := plotter.XY{X: s.X[i] + shift, Y: y.Mean}, y.Mean-y.SD, y.Mean+y.SD
		if s.Bars == Intervals {
			low, high = y.Low, y.High
		}
		if s.Bars == NoBars || notFinite(at) || !isFinite(low) {
			continue
		}
		if s.XValues != nil {
			x := stats.MeanInterval(s.XValues[i])
			p.Add(&plotter.XErrorBars{XYs: plotter.XYs{at}, XErrors: plotter.XErrors{{Low: x.SD, High: x.SD}}, LineStyle: style})
		} else if s.Bars == Deviations {
			p.Add(seedDots{lo.Map(values, func(value float64, _ int) plotter.XY { return plotter.XY{X: at.X, Y: value} }), seedDot(style.Color)})
			p.seeds = true
		}
		errors := plotter.YErrors{{Low: at.Y - low, High: high - at.Y}}
		p.Add(&plotter.YErrorBars{XYs: plotter.XYs{at}, YErrors: errors, LineStyle: style, CapWidth: vg.Points(5)})
	}
}

// label writes the labels of a series beside its points.
func (p *panel) label(s Series) {
	var labels plotter.XYLabels
	for i, label := range s.Labels {
		if at := (plotter.XY{X: s.X[i], Y: s.Y[i]}); !notFinite(at) {
			labels.XYs, labels.Labels = append(labels.XYs, at), append(labels.Labels, label)
		}
	}
	p.Add(pointLabels(labels))
}

// pointLabels are labels beside points, each where it covers least of the points and of the labels before it.
type pointLabels plotter.XYLabels

// Plot implements plot.Plotter.
func (l pointLabels) Plot(c draw.Canvas, p *plot.Plot) {
	const radius = 5
	toX, toY := p.Transforms(&c)
	style := sans(textSize, true, draw.XLeft, draw.YBottom)
	var taken []vg.Rectangle
	for _, at := range l.XYs {
		x, y := toX(at.X), toY(at.Y)
		taken = append(taken, vg.Rectangle{Min: vg.Point{X: x - radius, Y: y - radius}, Max: vg.Point{X: x + radius, Y: y + radius}})
	}
	for i, label := range l.Labels {
		w, h := style.Width(label), style.Height(label)
		var best vg.Rectangle
		least := vg.Length(math.Inf(1))
		for _, shift := range []vg.Point{{X: 6, Y: 4}, {X: 6, Y: -4 - h}, {X: -6 - w, Y: 4}, {X: -6 - w, Y: -4 - h}, {X: 16, Y: -h / 2}, {X: -16 - w, Y: -h / 2}} {
			low := vg.Point{X: toX(l.XYs[i].X) + shift.X, Y: toY(l.XYs[i].Y) + shift.Y}
			box := vg.Rectangle{Min: low, Max: vg.Point{X: low.X + w, Y: low.Y + h}}
			covered := vg.Length(0)
			for _, other := range taken {
				wide, high := min(box.Max.X, other.Max.X)-max(box.Min.X, other.Min.X), min(box.Max.Y, other.Max.Y)-max(box.Min.Y, other.Min.Y)
				covered += max(wide, 0) * max(high, 0)
			}
			if covered < least {
				best, least = box, covered
			}
		}
		c.FillText(style, best.Min, label)
		taken = append(taken, best)
	}
}

// seedDots are dots a little left of their points.
type seedDots struct {
	at    plotter.XYs
	style draw.GlyphStyle
}

// Plot implements plot.Plotter.
func (d seedDots) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for _, at := range d.at {
		c.DrawGlyph(d.style, vg.Point{X: toX(at.X) - 6, Y: toY(at.Y)})
	}
}

// DataRange implements plot.DataRanger.
func (d seedDots) DataRange() (lowX, highX, lowY, highY float64) { return plotter.XYRange(d.at) }

// rule draws a line across the panel, whose ranges are set, at a y, or at an x if it is upright.
func (p *panel) rule(at float64, upright bool) {
	ends, style := plotter.XYs{{X: p.X.Min, Y: at}, {X: p.X.Max, Y: at}}, draw.LineStyle{Color: grey, Width: vg.Points(0.8)}
	if upright {
		ends, style.Color = plotter.XYs{{X: at, Y: p.Y.Min}, {X: at, Y: p.Y.Max}}, lightGrey
	}
	p.Add(&plotter.Line{XYs: ends, LineStyle: style})
}

// sheet lays the panels out, at most four in a row. The first one is wider, for its label of the y axis, if the others have none.
func (f chart) sheet() (sheet, error) {
	const gap, most = 14, 4 // gap is between panels.
	rows := lo.Chunk(f.panels, most)
	return sheet{width, f.height * vg.Length(len(rows)) * pixel, f.records, func(c draw.Canvas) {
		c = drawHead(page(c), f.title, f.legend)
		if f.scale != nil {
			const bar = 74
			f.scale.drawScale(draw.Crop(c, c.Size().X-bar, 0, 24, -40))
			c = draw.Crop(c, 0, -bar-gap, 0, 0)
		}
		label := lo.Ternary[vg.Length](len(f.panels) > 1 && f.panels[len(f.panels)-1].Y.Label.Text == "", 18, 0)
		n := vg.Length(min(len(f.panels), most))
		wide, tall := (c.Size().X-label-gap*(n-1))/n, c.Size().Y/vg.Length(len(rows))
		for i, p := range f.panels {
			column, row := vg.Length(i%most), vg.Length(i/most)
			left, right := column*(wide+gap)+label*min(column, 1), (column+1)*wide+column*gap+label
			at := drawHead(draw.Crop(c, left, right-c.Size().X, tall*(vg.Length(len(rows)-1)-row), -tall*row), p.title, p.legend)
			if p.X.Tick.Marker = p.ticks; p.ticks == nil {
				p.X.Tick.Marker = plot.TickerFunc(niceTicks)
				p.X.Tick.Marker = sparseTicks(p.X.Tick.Label, p.DataCanvas(at).Size().X, slices.Contains(counted, p.X.Label.Text))
			}
			p.Draw(at)
		}
	}}, nil
}

// fit gives an axis a margin of 5 % around a range; without numbers, low is above high, and the axis is from 0 to 1.
func fit(axis *plot.Axis, low, high float64) {
	if low > high {
		low, high = 0, 1
	}
	margin := cmp.Or(0.05*(high-low), 0.05*math.Abs(low), 1)
	axis.Min, axis.Max = low-margin, high+margin
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

// counted are the labels of axes of whole numbers.
var counted = []string{"epoch", "step", "seed", "transformations"}

// sparseTicks are niceTicks of an axis of some width, at whole numbers alone if whole says so. Where their labels would touch, only every second, fifth or tenth has one.
func sparseTicks(style text.Style, width vg.Length, whole bool) plot.TickerFunc {
	return func(low, high float64) []plot.Tick {
		ticks := slices.DeleteFunc(niceTicks(low, high), func(t plot.Tick) bool { return whole && math.Abs(t.Value-math.Round(t.Value)) > 1e-9 })
		for i := range ticks {
			if whole {
				ticks[i].Label = tickLabel(ticks[i].Value, 0)
			}
		}
		if len(ticks) < 2 {
			return ticks
		}
		step, widest := ticks[1].Value-ticks[0].Value, lo.Max(lo.Map(ticks, func(t plot.Tick, _ int) vg.Length { return style.Width(t.Label) }))
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

// tickLabel writes plain numbers up to a million; beyond that, and for numbers below a thousandth that need five digits or more, it uses an exponent.
func tickLabel(value float64, digits int) string {
	return lo.Ternary(math.Abs(value) >= 1e6 || digits > 4 && math.Abs(value) < 1e-3, strconv.FormatFloat(value, 'g', 3, 64), decimal(value, digits))
}

// logTicks labels 1, 2 and 5 times powers of ten: over many decades only the powers, over less than half a decade the same as on a linear axis.
func logTicks(low, high float64) []plot.Tick {
	decades := math.Log10(high / low)
	if decades < 0.5 {
		return niceTicks(low, high)
	}
	factors := lo.Ternary(decades > 3, []float64{1}, []float64{1, 2, 5})
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
