package figures

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"sort"

	"github.com/samber/lo"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Heatmap shows a number over two others as colours.
type Heatmap struct {
	Title   string    // May be empty.
	X, Y, Z string    // Labels of the axes and the colours.
	Xs, Ys  []float64 // Ascending; Values[i][j] belongs to Xs[j], Ys[i]. NaN leaves a cell grey, see Missing.
	Values  [][]float64
	// Low and High are the ends of the colour scale. A number above High has a colour of its own, see Above; one below Low has the first.
	Low, High float64
	// Above and Missing say what a number above High and what NaN means: "vacuous", "no margin". Empty leaves them out of the legend.
	Above, Missing string
}

// HeatmapRow is several heatmaps side by side; the legend and the scale beside them are the first one's, so all must have its Low and High.
type HeatmapRow []Heatmap

// sheet implements [Figure], with records of x, y, value; the value is empty for NaN.
func (f Heatmap) sheet() (sheet, error) { return alone(HeatmapRow{f}) }

// sheet implements [Figure], with records of the heatmap's title, x, y, value.
func (f HeatmapRow) sheet() (sheet, error) {
	if len(f) == 0 {
		return sheet{}, errors.New("no heatmaps")
	}
	c := chart{height: 400, scale: &f[0], records: [][]string{{"map", "x", "y", "value"}}}
	for i, name := range []string{f[0].Above, f[0].Missing} {
		if name != "" {
			patch := draw.GlyphStyle{Color: []color.Color{aboveColour, missingColour}[i], Radius: vg.Points(4.5), Shape: draw.BoxGlyph{}}
			c.legend = append(c.legend, legendEntry{name: name, glyph: patch})
		}
	}
	for _, m := range f {
		if err := m.check(); err != nil {
			return sheet{}, err
		}
		p := newPanel(m.X, m.Y)
		p.title = m.Title
		xs, ys := edges(m.Xs), edges(m.Ys)
		p.Add(m.painted(xs, ys)) // Sets the ranges of the axes.
		c.panels = append(c.panels, p)
		for i, y := range m.Ys {
			for j, x := range m.Xs {
				value := m.Values[i][j]
				c.records = append(c.records, []string{m.Title, exact(x), exact(y), lo.Ternary(math.IsNaN(value), "", exact(value))})
			}
		}
	}
	return c.sheet()
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

// scale runs from dark blue, low, over green to pale, high; lightness alone shows the order.
var scale = []color.RGBA{{0x08, 0x1D, 0x58, 0xFF}, {0x1D, 0x6F, 0xA5, 0xFF}, {0x41, 0xB6, 0xC4, 0xFF}, {0xC7, 0xE9, 0xB4, 0xFF}, {0xFF, 0xFF, 0xE5, 0xFF}}

var (
	aboveColour   = color.RGBA{0xE6, 0x9F, 0x00, 0xFF}
	missingColour = color.RGBA{0xB4, 0xB4, 0xB4, 0xFF}
)

// colourAt is the colour at a share of the scale; grey for NaN.
func colourAt(share float64) color.RGBA {
	if math.IsNaN(share) {
		return missingColour
	}
	at := min(max(share, 0), 1) * float64(len(scale)-1)
	i := min(int(at), len(scale)-2)
	mix := func(a, b uint8) uint8 { return uint8(float64(a) + (at-float64(i))*(float64(b)-float64(a)) + 0.5) }
	a, b := scale[i], scale[i+1]
	return color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xFF}
}

// painted is the values as one image, since thousands of paths make an SVG of megabytes. xs and ys are the edges of its cells.
func (f Heatmap) painted(xs, ys []float64) *plotter.Image {
	const side = 480 // Pixels.
	// places are the cells that the pixels of an axis show.
	places := func(edges []float64) (places [side]int) {
		low, high := edges[0], edges[len(edges)-1]
		for i := range places {
			at := low + (high-low)*(float64(i)+0.5)/side
			places[i] = max(0, min(len(edges)-2, sort.SearchFloat64s(edges, at)-1))
		}
		return places
	}
	columns, rows := places(xs), places(ys)
	picture := painted(side, side, func(x, y int) color.RGBA {
		value := f.Values[rows[side-1-y]][columns[x]]
		if value > f.High {
			return aboveColour
		}
		return colourAt((value - f.Low) / (f.High - f.Low))
	})
	return plotter.NewImage(picture, xs[0], ys[0], xs[len(xs)-1], ys[len(ys)-1])
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

// drawScale draws the colour scale, low at the bottom.
func (f Heatmap) drawScale(c draw.Canvas) {
	const steps, thick = 64, 14
	height := c.Size().Y / steps
	for i := range steps {
		low := c.Min.Y + height*vg.Length(i)
		c.SetColor(colourAt((float64(i) + 0.5) / steps))
		rectangle := vg.Rectangle{Min: vg.Point{X: c.Min.X, Y: low}, Max: vg.Point{X: c.Min.X + thick, Y: low + height + 0.5}}
		c.Fill(rectangle.Path())
	}
	for _, tick := range niceTicks(f.Low, f.High) {
		y := c.Min.Y + vg.Length((tick.Value-f.Low)/(f.High-f.Low))*c.Size().Y
		c.FillText(sans(tickSize, false, draw.XLeft, draw.YCenter), vg.Point{X: c.Min.X + thick + 4, Y: y}, tick.Label)
	}
	label := sans(textSize, false, draw.XCenter, draw.YBottom)
	label.Rotation = math.Pi / 2
	c.FillText(label, vg.Point{X: c.Max.X, Y: c.Center().Y}, f.Z)
}

// Embedding shows labelled vectors as points of the plane, such as patches by t-SNE. The axes have no unit and are not drawn. Both axes have one scale.
type Embedding struct {
	Title   string
	X, Y    []float64 // The points, and Class the class of each, a place in Classes.
	Class   []int
	Classes []string
	// Pictures, one of each point, are drawn instead of dots, framed in the colour of the class. A picture that would cover another one is left out. Nil for dots.
	Pictures []image.Image
}

// Sizes in pixels.
const (
	embeddingHeight = 660
	pictureSide     = 34
	frameWidth      = 3
)

func (f Embedding) check() error {
	n := len(f.X)
	switch {
	case n == 0:
		return errors.New("no points")
	case len(f.Y) != n || len(f.Class) != n || f.Pictures != nil && len(f.Pictures) != n:
		return fmt.Errorf("%d x, %d y, %d classes and %d pictures", n, len(f.Y), len(f.Class), len(f.Pictures))
	}
	for i, class := range f.Class {
		if class < 0 || class >= len(f.Classes) {
			return fmt.Errorf("point %d has class %d of %d", i, class, len(f.Classes))
		}
		if !isFinite(f.X[i]) || !isFinite(f.Y[i]) {
			return fmt.Errorf("point %d is at %g, %g", i, f.X[i], f.Y[i])
		}
	}
	return nil
}

// sheet implements [Figure], with records of x, y, class.
func (f Embedding) sheet() (sheet, error) {
	if err := f.check(); err != nil {
		return sheet{}, err
	}
	points := lo.Map(f.X, func(x float64, i int) []string { return []string{exact(x), exact(f.Y[i]), f.Classes[f.Class[i]]} })
	// The classes that occur get colours and shapes in their order, so that few classes are as different as can be.
	occurring := slices.Compact(slices.Sorted(slices.Values(f.Class)))
	glyph := func(class int) draw.GlyphStyle {
		i, _ := slices.BinarySearch(occurring, class)
		return draw.GlyphStyle{Color: look(i).colour(), Radius: vg.Points(2.6), Shape: glyphs[i%len(glyphs)]} // 7 colours and 4 shapes are 28 looks.
	}
	legend := lo.Map(occurring, func(class, _ int) legendEntry { return legendEntry{name: f.Classes[class], glyph: glyph(class)} })
	return sheet{width, embeddingHeight * pixel, append([][]string{{"x", "y", "class"}}, points...), func(c draw.Canvas) {
		c = drawHead(page(c), f.Title, legend)
		at := f.places(c)
		var drawn []vg.Point
		for i, class := range f.Class {
			centre := at(i)
			if f.Pictures == nil {
				c.DrawGlyphNoClip(glyph(class), centre)
				continue
			}
			const side = pictureSide * pixel
			if slices.ContainsFunc(drawn, func(p vg.Point) bool { return max(p.X-centre.X, centre.X-p.X, p.Y-centre.Y, centre.Y-p.Y) < side }) {
				continue
			}
			drawn = append(drawn, centre)
			square := func(side vg.Length) vg.Rectangle {
				return vg.Rectangle{Min: vg.Point{X: centre.X - side/2, Y: centre.Y - side/2}, Max: vg.Point{X: centre.X + side/2, Y: centre.Y + side/2}}
			}
			c.SetColor(glyph(class).Color)
			c.Fill(square(side).Path())
			c.DrawImage(square(side-2*frameWidth*pixel), f.Pictures[i])
		}
	}}, nil
}

// places returns the place of each point on the canvas, with a margin of half a picture.
func (f Embedding) places(c draw.Canvas) func(i int) vg.Point {
	const margin = pictureSide / 2 * pixel
	left, right, low, high := slices.Min(f.X), slices.Max(f.X), slices.Min(f.Y), slices.Max(f.Y)
	size := c.Size()
	scale := min(float64(size.X-2*margin)/max(right-left, 1e-12), float64(size.Y-2*margin)/max(high-low, 1e-12))
	return func(i int) vg.Point {
		return vg.Point{X: c.Center().X + vg.Length(scale*(f.X[i]-(left+right)/2)), Y: c.Center().Y + vg.Length(scale*(f.Y[i]-(low+high)/2))}
	}
}
