package figures

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Curves plots numbers against the step, the epoch or the time.
type Curves struct {
	// Title stands above the plot; it may be empty.
	Title string
	// X and Y label the axes, with the unit: "epoch", "k-NN accuracy (%)".
	X, Y string
	// LogX and LogY make an axis logarithmic; each x or y must then be positive.
	LogX, LogY bool
	// Points draws no lines: each point of a series stands for itself.
	Points bool
	// Series are drawn in turn; colour, dash and marker depend on the index.
	Series []Series
}

// Series is one curve: y[i] at x[i]. If one of them is NaN or infinite, the curve has a gap.
type Series struct {
	Name string
	X, Y []float64
}

// CurvesOf computes curves of several numbers against x: values(x) has one number for each of the names.
func CurvesOf(x, y string, names []string, xs []float64, values func(x float64) []float64) Curves {
	f := Curves{X: x, Y: y}
	for _, name := range names {
		f.Series = append(f.Series, Series{Name: name, X: xs})
	}
	for _, at := range xs {
		for i, value := range values(at) {
			f.Series[i].Y = append(f.Series[i].Y, value)
		}
	}
	return f
}

// Render implements [Figure].
func (f Curves) Render() (svg, png []byte, err error) { return rendered(f) }

func (f Curves) page() (sheet, error) { return CurvesRow{f}.page() }

// CSV implements [Figure]: series, x, y.
func (f Curves) CSV() string {
	return csvText(append([][]string{{"series", "x", "y"}}, f.records()...))
}

func (f Curves) records() (records [][]string) {
	for _, series := range f.Series {
		for i := range min(len(series.X), len(series.Y)) {
			records = append(records, []string{series.Name, strconv.FormatFloat(series.X[i], 'g', -1, 64), strconv.FormatFloat(series.Y[i], 'g', -1, 64)})
		}
	}
	return records
}

// CurvesRow is several plots of curves side by side, such as loss and accuracy of the same run.
type CurvesRow []Curves

// Render implements [Figure].
func (f CurvesRow) Render() (svg, png []byte, err error) { return rendered(f) }

func (f CurvesRow) page() (sheet, error) {
	if len(f) == 0 {
		return sheet{}, errors.New("no curves")
	}
	for _, curves := range f {
		if err := curves.check(); err != nil {
			return sheet{}, err
		}
	}
	return newSheet(width, 360*pixel, func(c draw.Canvas) {
		c = page(c)
		const gap = 14
		each := (c.Size().X - gap*vg.Length(len(f)-1)) / vg.Length(len(f))
		for i, curves := range f {
			left := (each + gap) * vg.Length(i)
			curves.draw(draw.Crop(c, left, left+each-c.Size().X, 0, 0))
		}
	})
}

// CSV implements [Figure]: y axis, series, x, y.
func (f CurvesRow) CSV() string {
	records := [][]string{{"plot", "series", "x", "y"}}
	for _, curves := range f {
		for _, record := range curves.records() {
			records = append(records, append([]string{curves.Y}, record...))
		}
	}
	return csvText(records)
}

func (f Curves) check() error {
	for _, series := range f.Series {
		if len(series.X) != len(series.Y) {
			return fmt.Errorf("series %q has %d x and %d y", series.Name, len(series.X), len(series.Y))
		}
		for i, y := range series.Y {
			if f.LogX && series.X[i] <= 0 {
				return fmt.Errorf("series %q has x = %v, which a logarithmic axis cannot show", series.Name, series.X[i])
			}
			if f.LogY && y <= 0 {
				return fmt.Errorf("series %q has y = %v at x = %v, which a logarithmic axis cannot show", series.Name, y, series.X[i])
			}
		}
	}
	return nil
}

// draw draws the plot with its legend.
func (f Curves) draw(c draw.Canvas) {
	p := newPlot(f.X, f.Y)
	var entries []legendEntry
	xs, ys := newExtent(), newExtent()
	for i, series := range f.Series {
		if f.LogX {
			series.X = logarithms(series.X)
		}
		if f.LogY {
			series.Y = logarithms(series.Y)
		}
		line := draw.LineStyle{Color: palette[i%len(palette)], Width: vg.Points(1.6), Dashes: dashes[i%len(dashes)]}
		dot := glyph(palette[i%len(palette)], shape(i)%shapes, false)
		if f.Points {
			line = draw.LineStyle{}
		}
		entries = append(entries, legendEntry{series.Name, line, dot})
		for _, part := range series.parts() {
			if f.Points {
				p.Add(&plotter.Scatter{XYs: part, GlyphStyle: dot})
			} else {
				p.Add(&plotter.Line{XYs: thin(part), LineStyle: line})
				p.Add(&plotter.Scatter{XYs: landmarks(part, len(series.X)), GlyphStyle: dot})
			}
			for _, point := range part {
				xs.add(point.X)
				ys.add(point.Y)
			}
		}
	}
	setRange(&p.X, xs.low, xs.high)
	setRange(&p.Y, ys.low, ys.high)
	if f.LogX {
		p.X.Tick.Marker = plot.TickerFunc(ticksOfLogarithms)
	}
	if f.LogY {
		p.Y.Tick.Marker = plot.TickerFunc(ticksOfLogarithms)
	}
	c = drawHead(c, f.Title, entries)
	if !f.LogX {
		p.X.Tick.Marker = sparseTicks(p.X.Tick.Label, p.DataCanvas(c).Size().X)
	}
	p.Draw(c)
}

// logarithms returns decimal logarithms.
func logarithms(values []float64) []float64 {
	logs := make([]float64, len(values))
	for i := range values {
		logs[i] = math.Log10(values[i])
	}
	return logs
}

// ticksOfLogarithms labels an axis of logarithms with the numbers themselves. plot.LogScale would leave a gap above the plot, since it assumes that
// the axis label stands at the arithmetic middle.
func ticksOfLogarithms(low, high float64) []plot.Tick {
	ticks := logTicks(math.Pow(10, low), math.Pow(10, high))
	for i := range ticks {
		ticks[i].Value = math.Log10(ticks[i].Value)
	}
	return ticks
}

// parts are the runs of finite points.
func (s Series) parts() (parts []plotter.XYs) {
	var part plotter.XYs
	for i := range s.X {
		if isFinite(s.X[i]) && isFinite(s.Y[i]) {
			part = append(part, plotter.XY{X: s.X[i], Y: s.Y[i]})
			continue
		}
		if part != nil {
			parts = append(parts, part)
		}
		part = nil
	}
	if part != nil {
		parts = append(parts, part)
	}
	return parts
}

func isFinite(value float64) bool { return !math.IsNaN(value) && !math.IsInf(value, 0) }

// thin reduces a long curve to the lowest and the highest point of each of about 500 stretches. It looks the same at this width, and the SVG of a
// long run stays small.
func thin(points plotter.XYs) plotter.XYs {
	const stretches = 500
	if len(points) <= 2*stretches {
		return points
	}
	kept := plotter.XYs{points[0]}
	for stretch := range slices.Chunk(points, (len(points)+stretches-1)/stretches) {
		lowest, highest := 0, 0
		for i, point := range stretch {
			if point.Y < stretch[lowest].Y {
				lowest = i
			}
			if point.Y > stretch[highest].Y {
				highest = i
			}
		}
		kept = append(kept, stretch[min(lowest, highest)], stretch[max(lowest, highest)])
	}
	return append(kept, points[len(points)-1])
}

// landmarks are the points of a part that carry markers: about ten in a curve of this length, plus the last one of each part. They are enough to tell
// curves apart and too few to hide them.
func landmarks(part plotter.XYs, length int) (marked plotter.XYs) {
	every := max(1, length/10)
	for i := len(part) - 1; i >= 0; i -= every {
		marked = append(marked, part[i])
	}
	return marked
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

// AddPoint appends a point to the series of a name, which it makes if it is not there.
func AddPoint(all *[]Series, name string, x, y float64) {
	for i := range *all {
		if s := &(*all)[i]; s.Name == name {
			s.X, s.Y = append(s.X, x), append(s.Y, y)
			return
		}
	}
	*all = append(*all, Series{Name: name, X: []float64{x}, Y: []float64{y}})
}
