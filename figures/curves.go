package figures

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Chart is plots side by side. Every figure with curves, points or bars is one.
type Chart struct {
	Title  string // Above the plots; may be empty.
	Panels CurvesRow
	Shared bool // The plots share their ranges, the label of y and the legend.
}

// CurvesRow is a [Chart] of plots that share nothing, such as loss and accuracy of the same run.
type CurvesRow []Curves

// Curves plots numbers against the step, the epoch or the time, or for each of some names.
type Curves struct {
	Title      string    // Above the plot; may be empty.
	X, Y       string    // Labels of the axes, with the unit: "epoch", "k-NN accuracy (%)".
	LogX, LogY bool      // Whether an axis is logarithmic; each x or y must then be positive.
	Points     bool      // No lines are drawn: each point of a series stands for itself.
	Names      []string  // Of 0, 1, 2 and so on on the x axis; nil for numbers.
	Levels     []float64 // Horizontal lines across the plot, which its range covers.
	Shift      float64   // How far each series is moved sideways from the one before, so that they do not hide one another.
	Note       string    // Behind the legend; may be empty.
	Series     []Series  // Drawn in turn.
}

// Series is one curve: y[i] at x[i]. If one of them is NaN or infinite, the curve has a gap.
type Series struct {
	Name string // In the legend; empty leaves it out, as does a series without a point.
	X, Y []float64
	// Values are the numbers behind each point, one per seed, instead of Y, which is their mean. XValues are the same for X, of the same seeds.
	Values, XValues [][]float64
	Bars            Bars
	Labels          []string // Beside the points; nil for none.
	Look            int      // Colour, dash and marker, counted from 1; 0 for the place of the series.
	Hollow          bool     // Markers are hollow, for the second kind of numbers in a figure, such as the paper's.
	Grey            bool     // Without colour, such as the paper's numbers on another dataset.
	Apart           bool     // No line joins the points.
}

// Bars are what the bars of a series with values of seeds show.
type Bars int

// The kinds of bars.
const (
	NoBars     Bars = iota
	Deviations      // ± the standard deviation, with a dot for each seed unless there are XValues.
	Intervals       // The 95 % interval of the mean.
)

// means are the means of the values behind points, or else the points themselves.
func means(values [][]float64, points []float64) []float64 {
	if values == nil {
		return points
	}
	return lo.Map(values, func(of []float64, _ int) float64 { return stats.MeanInterval(of).Mean })
}

// CurvesOf computes curves of several numbers against x: values(x) has one number for each of the names.
func CurvesOf(x, y string, names []string, xs []float64, values func(x float64) []float64) Curves {
	f := Curves{X: x, Y: y}
	for _, at := range xs {
		for i, value := range values(at) {
			AddPoint(&f.Series, names[i], at, value)
		}
	}
	return f
}

// AddPoint appends a point to the series of a name, which it makes if it is not there.
func AddPoint(all *[]Series, name string, x, y float64) {
	i := slices.IndexFunc(*all, func(s Series) bool { return s.Name == name })
	if i < 0 {
		i = len(*all)
		*all = append(*all, Series{Name: name})
	}
	s := &(*all)[i]
	s.X, s.Y = append(s.X, x), append(s.Y, y)
}

// sheet implements [Figure], with the records of [Chart] without the plot.
func (f Curves) sheet() (sheet, error) { return alone(CurvesRow{f}) }

// sheet implements [Figure], with the records of [Chart].
func (f CurvesRow) sheet() (sheet, error) { return Chart{Panels: f}.sheet() }

// sheet implements [Figure], with records of plot, series, x, y. If there are values of seeds, the label of a point, the deviation and the interval, and the values
// stand there too.
func (f Chart) sheet() (_ sheet, err error) {
	defer try.Handle(&err)
	if len(f.Panels) == 0 {
		return sheet{}, errors.New("no curves")
	}
	seeds := slices.ContainsFunc(f.Panels, func(p Curves) bool {
		return slices.ContainsFunc(p.Series, func(s Series) bool { return s.Values != nil })
	})
	c := chart{title: f.Title, height: 360, records: [][]string{{"plot", "series", "x", "y"}}}
	if seeds {
		c.records[0] = append(c.records[0], "label", "sd", "low", "high", "n", "values", "x_values")
	}
	all, tall := newPanel("", ""), vg.Length(0)
	for i, curves := range f.Panels {
		p := try.E1(curves.panel())
		tall = max(tall, p.named(curves.Names, 0.8*width/vg.Length(len(f.Panels))))
		all.X.Min, all.X.Max = min(all.X.Min, p.X.Min), max(all.X.Max, p.X.Max)
		all.Y.Min, all.Y.Max = min(all.Y.Min, p.Y.Min), max(all.Y.Max, p.Y.Max)
		if f.Shared && i > 0 {
			p.Y.Label.Text = ""
		}
		if f.Shared {
			c.legend, p.legend = lo.UniqBy(append(c.legend, p.legend...), func(e legendEntry) string { return e.name }), nil
		}
		c.panels = append(c.panels, p)
		nameOf := func(of Curves) string { return lo.Ternary(f.Title != "", of.Title, of.Y) }
		name := nameOf(curves)
		if lo.CountBy(f.Panels, func(other Curves) bool { return nameOf(other) == name }) > 1 {
			name += " by " + curves.X
		}
		for _, s := range curves.Series {
			c.records = append(c.records, curves.records(name, s, seeds)...)
		}
	}
	c.height += tall / pixel
	for i, p := range c.panels {
		ranges := lo.Ternary(f.Shared, all, p)
		fit(&p.X, ranges.X.Min, ranges.X.Max)
		fit(&p.Y, ranges.Y.Min, ranges.Y.Max)
		for _, level := range f.Panels[i].Levels {
			p.rule(level, false)
		}
		for place := 1; place < len(f.Panels[i].Names); place++ { // Between neighbours.
			p.rule(float64(place)-0.5, true)
		}
	}
	return c.sheet()
}

// records are the points of a series, with the values of seeds if any series of the chart has some. A name on the x axis stands for its number.
func (f Curves) records(plot string, s Series, seeds bool) (records [][]string) {
	ys := means(s.Values, s.Y)
	for i, at := range means(s.XValues, s.X) {
		record := []string{plot, s.Name, exact(at), exact(ys[i])}
		if f.Names != nil {
			record[2] = f.Names[int(at)]
		}
		if values := lo.NthOrEmpty(s.Values, i); seeds {
			mean := stats.MeanInterval(values)
			record = append(record, lo.NthOrEmpty(s.Labels, i), plain(mean.SD), plain(mean.Low), plain(mean.High), strconv.Itoa(mean.N),
				joinPlain(values), joinPlain(lo.NthOrEmpty(s.XValues, i)))
		}
		records = append(records, record)
	}
	return records
}

// exact is a number with all its digits.
func exact(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

// panel draws the plot with its legend.
func (f Curves) panel() (_ *panel, err error) {
	defer try.Handle(&err)
	p := newPanel(f.X, f.Y)
	p.title = f.Title
	if f.LogX {
		p.ticks = plot.TickerFunc(ticksOfLogarithms)
	}
	if f.LogY {
		p.Y.Tick.Marker = plot.TickerFunc(ticksOfLogarithms)
	}
	for i, s := range f.Series {
		shift := f.Shift * (float64(i) - float64(len(f.Series)-1)/2)
		s.X, s.Y = means(s.XValues, s.X), means(s.Values, s.Y)
		parts := try.E1(f.parts(s, shift))
		l := look(cmp.Or(s.Look, i+1) - 1)
		line, marker := l.line(1.6), l.marker(s.Hollow)
		if s.Grey {
			line.Color, marker.Color = grey, grey
		}
		if f.Points || s.Apart {
			line.Width = 0
		}
		if s.Name != "" && len(parts) > 0 {
			p.legend = append(p.legend, legendEntry{s.Name, line, marker})
		}
		p.spread(s, l, shift)
		for _, part := range parts {
			if line.Width > 0 {
				p.Add(&plotter.Line{XYs: thin(part), LineStyle: line})
				part = landmarks(part, len(s.X))
			}
			p.Add(&plotter.Scatter{XYs: part, GlyphStyle: marker})
		}
		if s.Labels != nil {
			p.label(s)
		}
	}
	if p.seeds {
		p.legend = append(p.legend, legendEntry{name: "one seed", glyph: seedDot(grey)})
	}
	if f.Note != "" {
		p.legend = append(p.legend, legendEntry{name: f.Note})
	}
	for _, level := range f.Levels {
		p.Y.Min, p.Y.Max = min(p.Y.Min, level), max(p.Y.Max, level)
	}
	return p, nil
}

// parts are the runs of finite points of a series, moved sideways, with the logarithms of numbers on logarithmic axes.
func (f Curves) parts(s Series, shift float64) (parts []plotter.XYs, err error) {
	if len(s.X) != len(s.Y) {
		return nil, fmt.Errorf("series %q has %d x and %d y", s.Name, len(s.X), len(s.Y))
	}
	if s.Labels != nil && len(s.Labels) != len(s.X) {
		return nil, fmt.Errorf("series %q has %d points and %d labels", s.Name, len(s.X), len(s.Labels))
	}
	gap := true
	for i, x := range s.X {
		y := s.Y[i]
		at := plotter.XY{X: x + shift, Y: y}
		if f.LogX {
			at.X = math.Log10(x)
		}
		if f.LogY {
			at.Y = math.Log10(y)
		}
		switch {
		case f.Names != nil && (x < 0 || int(x) >= len(f.Names)):
			return nil, fmt.Errorf("series %q has x = %v for %d names", s.Name, x, len(f.Names))
		case f.LogX && x <= 0:
			return nil, fmt.Errorf("series %q has x = %v, which a logarithmic axis cannot show", s.Name, x)
		case f.LogY && y <= 0:
			return nil, fmt.Errorf("series %q has y = %v at x = %v, which a logarithmic axis cannot show", s.Name, y, x)
		case notFinite(at):
			gap = true
			continue
		case gap:
			parts, gap = append(parts, nil), false
		}
		last := len(parts) - 1
		parts[last] = append(parts[last], at)
	}
	return parts, nil
}

// ticksOfLogarithms labels an axis of logarithms with the numbers themselves. plot.LogScale misplaces the label of the axis and leaves a gap above the plot.
func ticksOfLogarithms(low, high float64) []plot.Tick {
	ticks := logTicks(math.Pow(10, low), math.Pow(10, high))
	for i := range ticks {
		ticks[i].Value = math.Log10(ticks[i].Value)
	}
	return ticks
}

// thin reduces a long curve to the lowest and the highest point of each of about 500 stretches: it looks the same, and its SVG stays small.
func thin(points plotter.XYs) plotter.XYs {
	const stretches = 500
	if len(points) <= 2*stretches {
		return points
	}
	kept := plotter.XYs{points[0]}
	for stretch := range slices.Chunk(points, (len(points)+stretches-1)/stretches) {
		_, lowest := lo.MinIndexBy(stretch, func(a, b plotter.XY) bool { return a.Y < b.Y })
		_, highest := lo.MaxIndexBy(stretch, func(a, b plotter.XY) bool { return a.Y > b.Y })
		kept = append(kept, stretch[min(lowest, highest)], stretch[max(lowest, highest)])
	}
	return append(kept, points[len(points)-1])
}

// landmarks are the points of a part that carry markers: about ten in a curve of this length, and the last one. More would hide the curves.
func landmarks(part plotter.XYs, length int) (marked plotter.XYs) {
	every := max(1, length/10)
	for i := len(part) - 1; i >= 0; i -= every {
		marked = append(marked, part[i])
	}
	return marked
}
