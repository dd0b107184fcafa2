package figures

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"
	"sort"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Heatmap shows a number over two others as colours.
type Heatmap struct {
	// Title stands above the plot; it may be empty.
	Title string
	// X, Y and Z label the axes and the colours.
	X, Y, Z string
	// Xs and Ys ascend; Values[i][j] belongs to Xs[j], Ys[i]. NaN leaves a cell grey, see Missing.
	Xs, Ys []float64
	Values [][]float64
	// Low and High are the ends of the colour scale. A number above High has a colour of its own, see Above; one below Low has the first.
	Low, High float64
	// Above and Missing say what a number above High and what NaN means: "vacuous", "no margin". Empty leaves them out of the legend.
	Above, Missing string
}

// HeatmapRow is several heatmaps side by side; they share the legend and the colours of the first.
type HeatmapRow []Heatmap

// Render implements [Figure].
func (f Heatmap) Render() (svg, png []byte, err error) { return rendered(f) }

func (f Heatmap) page() (sheet, error) { return HeatmapRow{f}.page() }

// CSV implements [Figure]: x, y, value; the value is empty for NaN.
func (f Heatmap) CSV() string {
	return csvText(append([][]string{{"x", "y", "value"}}, f.records()...))
}

func (f Heatmap) records() (records [][]string) {
	for i, y := range f.Ys {
		for j, x := range f.Xs {
			value := ""
			if v := f.Values[i][j]; !math.IsNaN(v) {
				value = strconv.FormatFloat(v, 'g', -1, 64)
			}
			records = append(records, []string{strconv.FormatFloat(x, 'g', -1, 64), strconv.FormatFloat(y, 'g', -1, 64), value})
		}
	}
	return records
}

// CSV implements [Figure]: title of the heatmap, x, y, value.
func (f HeatmapRow) CSV() string {
	records := [][]string{{"map", "x", "y", "value"}}
	for _, m := range f {
		for _, record := range m.records() {
			records = append(records, append([]string{m.Title}, record...))
		}
	}
	return csvText(records)
}

// scale runs from dark blue, low, over green to pale, high; lightness alone shows the order.
var scale = []color.RGBA{{0x08, 0x1D, 0x58, 0xFF}, {0x1D, 0x6F, 0xA5, 0xFF}, {0x41, 0xB6, 0xC4, 0xFF}, {0xC7, 0xE9, 0xB4, 0xFF}, {0xFF, 0xFF, 0xE5, 0xFF}}

var (
	aboveColour   = color.RGBA{0xE6, 0x9F, 0x00, 0xFF}
	missingColour = color.Gray{0xB4}
)

// colourAt is the colour at a share of the scale.
func colourAt(share float64) color.Color {
	at := min(max(share, 0), 1) * float64(len(scale)-1)
	i := min(int(at), len(scale)-2)
	mix := func(a, b uint8) uint8 { return uint8(float64(a) + (at-float64(i))*(float64(b)-float64(a)) + 0.5) }
	a, b := scale[i], scale[i+1]
	return color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xFF}
}

func (f Heatmap) colour(value float64) color.Color {
	switch {
	case math.IsNaN(value):
		return missingColour
	case value > f.High:
		return aboveColour
	}
	return colourAt((value - f.Low) / (f.High - f.Low))
}

func (f Heatmap) check() error {
	if len(f.Xs) < 2 || len(f.Ys) < 2 || len(f.Values) != len(f.Ys) || !(f.High > f.Low) {
		return fmt.Errorf("heatmap %q: %d values by %d and %d rows of them, colours from %g to %g",
			f.Title, len(f.Xs), len(f.Ys), len(f.Values), f.Low, f.High)
	}
	for i, row := range f.Values {
		if len(row) != len(f.Xs) {
			return fmt.Errorf("heatmap %q: row %d has %d values for %d", f.Title, i, len(row), len(f.Xs))
		}
	}
	return nil
}

// cells paints the values below the axes as one image, since thousands of paths make an SVG of megabytes.
type cells struct{ Heatmap }

// Plot implements plot.Plotter.
func (f cells) Plot(c draw.Canvas, p *plot.Plot) {
	const columns, rows = 480, 480 // Pixels.
	toX, toY := p.Transforms(&c)
	xs, ys := edges(f.Xs), edges(f.Ys)
	left, right, bottom, top := xs[0], xs[len(xs)-1], ys[0], ys[len(ys)-1]
	place := func(edges []float64, at float64) int {
		return max(0, min(len(edges)-2, sort.SearchFloat64s(edges, at)-1))
	}
	picture := image.NewRGBA(image.Rect(0, 0, columns, rows))
	for row := range rows {
		i := place(ys, top-(top-bottom)*(float64(row)+0.5)/rows)
		for column := range columns {
			j := place(xs, left+(right-left)*(float64(column)+0.5)/columns)
			picture.Set(column, row, f.colour(f.Values[i][j]))
		}
	}
	c.DrawImage(vg.Rectangle{Min: vg.Point{X: toX(left), Y: toY(bottom)}, Max: vg.Point{X: toX(right), Y: toY(top)}}, picture)
}

// edges are the midpoints between neighbours.
func edges(values []float64) []float64 {
	n := len(values)
	all := []float64{values[0] - (values[1]-values[0])/2}
	for i := 1; i < n; i++ {
		all = append(all, (values[i-1]+values[i])/2)
	}
	return append(all, values[n-1]+(values[n-1]-values[n-2])/2)
}

// Render implements [Figure].
func (f HeatmapRow) Render() (svg, png []byte, err error) { return rendered(f) }

func (f HeatmapRow) page() (sheet, error) {
	if len(f) == 0 {
		return sheet{}, errors.New("no heatmaps")
	}
	for _, m := range f {
		if err := m.check(); err != nil {
			return sheet{}, err
		}
	}
	var entries []legendEntry
	for _, special := range []struct {
		name string
		ink  color.Color
	}{{f[0].Above, aboveColour}, {f[0].Missing, missingColour}} {
		if special.name != "" {
			patch := draw.GlyphStyle{Color: special.ink, Radius: vg.Points(4.5), Shape: marker{square, false}}
			entries = append(entries, legendEntry{name: special.name, glyph: patch})
		}
	}
	return newSheet(width, 400*pixel, func(c draw.Canvas) {
		c = page(c)
		const gap, bar = 14, 74
		c = drawHead(c, "", entries)
		f[0].drawBar(draw.Crop(c, c.Size().X-bar, 0, 24, -40))
		each := (c.Size().X - bar - gap*vg.Length(len(f))) / vg.Length(len(f))
		for i, m := range f {
			p := newPlot(m.X, m.Y)
			xs, ys := edges(m.Xs), edges(m.Ys)
			p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = xs[0], xs[len(xs)-1], ys[0], ys[len(ys)-1]
			p.Title.Text, p.Title.TextStyle = m.Title, sans(textSize, true)
			p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = draw.XCenter, draw.YTop
			p.Title.Padding = 4
			p.Add(cells{m})
			left := (each + gap) * vg.Length(i)
			p.Draw(draw.Crop(c, left, left+each-c.Size().X, 0, 0))
		}
	})
}

// drawBar draws the colour scale, low at the bottom.
func (f Heatmap) drawBar(c draw.Canvas) {
	const steps, thick = 64, 14
	height := c.Size().Y / steps
	for i := range steps {
		low := c.Min.Y + height*vg.Length(i)
		c.SetColor(colourAt((float64(i) + 0.5) / steps))
		rectangle := vg.Rectangle{Min: vg.Point{X: c.Min.X, Y: low}, Max: vg.Point{X: c.Min.X + thick, Y: low + height + 0.5}}
		c.Fill(rectangle.Path())
	}
	style := sans(tickSize, false)
	style.YAlign = draw.YCenter
	for _, tick := range niceTicks(f.Low, f.High) {
		y := c.Min.Y + vg.Length((tick.Value-f.Low)/(f.High-f.Low))*c.Size().Y
		c.FillText(style, vg.Point{X: c.Min.X + thick + 4, Y: y}, tick.Label)
	}
	label := sans(textSize, false)
	label.Rotation, label.XAlign, label.YAlign = math.Pi/2, draw.XCenter, draw.YBottom
	c.FillText(label, vg.Point{X: c.Max.X, Y: c.Center().Y}, f.Z)
}
