package figures

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// Curves plots numbers against the step, the epoch or the time.
type Curves struct {
	Title      string   // Above the plot; may be empty.
	X, Y       string   // Labels of the axes, with the unit: "epoch", "k-NN accuracy (%)".
	LogX, LogY bool     // Whether an axis is logarithmic; each x or y must then be positive.
	Points     bool     // No lines are drawn: each point of a series stands for itself.
	Series     []Series // Drawn in turn; colour, dash and marker depend on the index.
}

// Series is one curve: y[i] at x[i]. If one of them is NaN or infinite, the curve has a gap.
type Series struct {
	Name string
	X, Y []float64
}

// CurvesRow is several plots of curves side by side, such as loss and accuracy of the same run.
type CurvesRow []Curves

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

// sheet implements [Figure], with records of series, x, y.
func (f Curves) sheet() (sheet, error) { return alone(CurvesRow{f}) }

// sheet implements [Figure], with records of y axis, series, x, y.
func (f CurvesRow) sheet() (sheet, error) {
	if len(f) == 0 {
		return sheet{}, errors.New("no curves")
	}
	c := chart{height: 360, gap: 14, records: [][]string{{"plot", "series", "x", "y"}}}
	for _, curves := range f {
		p, err := curves.panel()
		if err != nil {
			return sheet{}, err
		}
		c.panels = append(c.panels, p)
		for _, s := range curves.Series {
			for i := range s.X {
				c.records = append(c.records, []string{curves.Y, s.Name, exact(s.X[i]), exact(s.Y[i])})
			}
		}
	}
	return c.sheet()
}

// exact is a number with all its digits.
func exact(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

// panel draws the plot with its legend.
func (f Curves) panel() (*panel, error) {
	p := newPanel("", f.X, f.Y)
	p.title = f.Title
	if f.LogX {
		p.ticks = plot.TickerFunc(ticksOfLogarithms)
	}
	if f.LogY {
		p.Y.Tick.Marker = plot.TickerFunc(ticksOfLogarithms)
	}
	for i, s := range f.Series {
		parts, err := f.parts(s)
		if err != nil {
			return nil, err
		}
		line, marker := look(i).line(1.6), look(i).marker(false)
		if f.Points {
			line.Width = 0
		}
		p.legend = append(p.legend, legendEntry{s.Name, line, marker})
		for _, part := range parts {
			if f.Points {
				p.mark(marker, part...)
			} else {
				p.line(line, thin(part)...)
				p.mark(marker, landmarks(part, len(s.X))...)
			}
		}
	}
	p.fit()
	return p, nil
}

// parts are the runs of finite points of a series, with the logarithms of numbers on logarithmic axes.
func (f Curves) parts(s Series) (parts []plotter.XYs, err error) {
	if len(s.X) != len(s.Y) {
		return nil, fmt.Errorf("series %q has %d x and %d y", s.Name, len(s.X), len(s.Y))
	}
	gap := true
	for i, x := range s.X {
		y := s.Y[i]
		at := plotter.XY{X: x, Y: y}
		if f.LogX {
			at.X = math.Log10(x)
		}
		if f.LogY {
			at.Y = math.Log10(y)
		}
		switch {
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

// landmarks are the points of a part that carry markers: about ten in a curve of this length, and the last one. More would hide the curves.
func landmarks(part plotter.XYs, length int) (marked plotter.XYs) {
	every := max(1, length/10)
	for i := len(part) - 1; i >= 0; i -= every {
		marked = append(marked, part[i])
	}
	return marked
}
