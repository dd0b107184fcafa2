package figures

import (
	"image/color"
	"math"
	"strconv"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// palette has colours that all kinds of colour vision can tell apart, without yellow, which is hard to see on white.
//
// Source: M. Okabe and K. Ito, Color Universal Design, 2008.
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xB2, 0xFF}, // blue
	color.RGBA{0xD5, 0x5E, 0x00, 0xFF}, // vermillion
	color.RGBA{0x00, 0x9E, 0x73, 0xFF}, // bluish green
	color.RGBA{0xE6, 0x9F, 0x00, 0xFF}, // orange
	color.RGBA{0xCC, 0x79, 0xA7, 0xFF}, // reddish purple
	color.RGBA{0x56, 0xB4, 0xE9, 0xFF}, // sky blue
	color.Black,
}

var (
	grey      = color.Gray{0x66}
	lightGrey = color.Gray{0xE0}
)

// dashes tell lines apart without colour.
var dashes = [][]vg.Length{nil, {6, 3}, {2, 2}, {8, 3, 2, 3}, {12, 4}, {4, 2, 1, 2, 1, 2}, {1, 3}}

// shape is the outline of a marker.
type shape int

const (
	circle shape = iota
	square
	triangle
	diamond
	shapes
)

// marker is a shape, filled or hollow; hollow markers are the paper's numbers.
type marker struct {
	shape  shape
	hollow bool
}

// DrawGlyph implements draw.GlyphDrawer.
func (m marker) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	var path vg.Path
	if m.shape == circle {
		path.Move(vg.Point{X: at.X + style.Radius, Y: at.Y})
		path.Arc(at, style.Radius, 0, 2*math.Pi)
	} else {
		corners, first, radius := 4, math.Pi/4, style.Radius*1.25 // As much ink as the circle.
		switch m.shape {
		case triangle:
			corners, first, radius = 3, math.Pi/2, style.Radius*1.35
		case diamond:
			first = math.Pi / 2
		}
		for i := range corners {
			sin, cos := math.Sincos(first + 2*math.Pi*float64(i)/float64(corners))
			corner := vg.Point{X: at.X + radius*vg.Length(cos), Y: at.Y + radius*vg.Length(sin)}
			if i == 0 {
				path.Move(corner)
			} else {
				path.Line(corner)
			}
		}
	}
	path.Close()
	if !m.hollow {
		c.SetColor(style.Color)
		c.Fill(path)
		return
	}
	c.SetColor(color.White)
	c.Fill(path)
	c.SetLineStyle(draw.LineStyle{Color: style.Color, Width: vg.Points(1.3)})
	c.Stroke(path)
}

// glyph is a marker of the usual size.
func glyph(ink color.Color, shape shape, hollow bool) draw.GlyphStyle {
	return draw.GlyphStyle{Color: ink, Radius: vg.Points(3.6), Shape: marker{shape, hollow}}
}

// faint is a colour at a third of its strength, for the dots of single seeds.
func faint(ink color.Color) color.Color {
	r, g, b, _ := ink.RGBA()
	return color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0x60}
}

// sans is the text style of every figure; size is in points.
func sans(size vg.Length, bold bool) text.Style {
	face := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		face.Weight = xfont.WeightBold
	}
	return text.Style{Color: color.Black, Font: face, Handler: plot.DefaultTextHandler}
}

// Sizes of text in points: 10.5 points are 14 pixels.
const (
	textSize  = 10.5
	tickSize  = 9.75
	titleSize = 12
)

// newPlot returns a plot with the axes, fonts and grid of every figure.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		label, tick := sans(textSize, false), sans(tickSize, false)
		label.XAlign, label.YAlign = axis.Label.TextStyle.XAlign, axis.Label.TextStyle.YAlign
		tick.XAlign, tick.YAlign = axis.Tick.Label.XAlign, axis.Tick.Label.YAlign
		axis.Label.TextStyle, axis.Tick.Label = label, tick
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

// setRange leaves a margin of 5 % around the data; without data the range is 0 to 1.
func setRange(axis *plot.Axis, low, high float64) {
	if low > high {
		low, high = 0, 1
	}
	margin := 0.05 * (high - low)
	if margin == 0 {
		margin = 0.05 * math.Abs(low)
	}
	if margin == 0 {
		margin = 1
	}
	axis.Min, axis.Max = low-margin, high+margin
}

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
