package figures

import (
	"image/color"

	"github.com/samber/lo"
	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
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

// look is the number of a series in a figure, which decides its colour, its dash and its marker.
type look int

func (l look) colour() color.Color { return palette[int(l)%len(palette)] }

func (l look) line(width float64) draw.LineStyle {
	return draw.LineStyle{Color: l.colour(), Width: vg.Points(width), Dashes: dashes[int(l)%len(dashes)]}
}

// marker is hollow for the second kind of numbers in a figure, such as the paper's.
func (l look) marker(isHollow bool) draw.GlyphStyle {
	glyph := glyphs[int(l)%len(glyphs)]
	return draw.GlyphStyle{Color: l.colour(), Radius: vg.Points(3.6), Shape: lo.Ternary[draw.GlyphDrawer](isHollow, hollow{glyph}, glyph)}
}

// seedDot is the faint dot of a single seed, at a third of the colour's strength.
func seedDot(ink color.Color) draw.GlyphStyle {
	r, g, b, _ := ink.RGBA()
	return draw.GlyphStyle{Color: color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0x60}, Radius: vg.Points(2.2), Shape: draw.CircleGlyph{}}
}

// glyphs are the shapes of markers.
var glyphs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, diamond{}}

// hollow is a glyph with a white one inside.
type hollow struct{ draw.GlyphDrawer }

// DrawGlyph implements draw.GlyphDrawer.
func (h hollow) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	h.GlyphDrawer.DrawGlyph(c, style, at)
	c.SetColor(color.White)
	style.Radius *= 0.6
	h.GlyphDrawer.DrawGlyph(c, style, at)
}

// diamond is a square on a corner.
type diamond struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (diamond) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	var path vg.Path
	radius := 1.25 * style.Radius // As much ink as the circle.
	path.Move(vg.Point{X: at.X + radius, Y: at.Y})
	for _, corner := range []vg.Point{{X: at.X, Y: at.Y + radius}, {X: at.X - radius, Y: at.Y}, {X: at.X, Y: at.Y - radius}} {
		path.Line(corner)
	}
	path.Close()
	c.Fill(path)
}

// Sizes of text in points: 10.5 points are 14 pixels.
const (
	textSize  = 10.5
	tickSize  = 9.75
	titleSize = 12
)

// sans is the text style of every figure. Size is in points.
func sans(size vg.Length, bold bool, x draw.XAlignment, y draw.YAlignment) text.Style {
	face := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		face.Weight = xfont.WeightBold
	}
	return text.Style{Color: color.Black, Font: face, Handler: plot.DefaultTextHandler, XAlign: x, YAlign: y}
}

// page fills the canvas with white and returns the part within the margins.
func page(c draw.Canvas) draw.Canvas {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	const margin = 8
	return draw.Crop(c, margin, -margin, margin, -margin)
}

// legendEntry explains one line or marker.
type legendEntry struct {
	name  string
	line  draw.LineStyle  // Drawn if its width is not 0.
	glyph draw.GlyphStyle // Drawn if it has a shape.
}

// sample is the width of the line and the marker. width is the whole entry's, with the space behind it.
func (e legendEntry) sample() vg.Length { return lo.Ternary[vg.Length](e.line.Width > 0, 26, 10) }

func (e legendEntry) width() vg.Length { return e.sample() + 4*headGap + legendStyle.Width(e.name) }

// headGap is the space below a title and a legend, and between parts of a legend.
const headGap = vg.Length(5)

var (
	legendStyle = sans(textSize, false, draw.XLeft, draw.YCenter)
	legendLine  = legendStyle.Height("X") + headGap
)

// legendRows breaks entries into rows of at most a width, with at least one entry each.
func legendRows(entries []legendEntry, width vg.Length) (rows [][]legendEntry) {
	used := vg.Length(0)
	for _, entry := range entries {
		if rows == nil || used+entry.width() > width {
			rows, used = append(rows, nil), 0
		}
		last := len(rows) - 1
		rows[last], used = append(rows[last], entry), used+entry.width()
	}
	return rows
}

// drawLegend draws a row of a legend, from the middle of its left end.
func drawLegend(c draw.Canvas, row []legendEntry, x, y vg.Length) {
	for _, entry := range row {
		sample := entry.sample()
		if entry.line.Width > 0 {
			c.StrokeLine2(entry.line, x, y, x+sample, y)
		}
		if entry.glyph.Shape != nil {
			c.DrawGlyphNoClip(entry.glyph, vg.Point{X: x + sample/2, Y: y})
		}
		c.FillText(legendStyle, vg.Point{X: x + sample + headGap, Y: y + legendStyle.FontExtents().Descent/2}, entry.name)
		x += entry.width()
	}
}

// drawHead writes a title and below it a legend at the top of the canvas, where it covers no data, and returns the rest of the canvas.
func drawHead(c draw.Canvas, title string, entries []legendEntry) draw.Canvas {
	if title == "" && entries == nil {
		return c
	}
	if title != "" {
		style := sans(titleSize, true, draw.XCenter, draw.YTop)
		c.FillText(style, vg.Point{X: c.Center().X, Y: c.Max.Y}, title)
		c.Max.Y -= style.Height(title) + headGap
	}
	for _, row := range legendRows(entries, c.Size().X) {
		drawLegend(c, row, c.Center().X-lo.SumBy(row, legendEntry.width)/2+headGap, c.Max.Y-legendLine/2)
		c.Max.Y -= legendLine
	}
	c.Max.Y -= headGap
	return c
}
