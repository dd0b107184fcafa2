package figures

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// legendEntry explains one line or marker.
type legendEntry struct {
	name  string
	line  draw.LineStyle  // Drawn if its width is not 0.
	glyph draw.GlyphStyle // Drawn if it has a shape.
}

// sample is the width of the line and the marker.
func (e legendEntry) sample() vg.Length {
	if e.line.Width > 0 {
		return 26
	}
	return 10
}

// drawHead writes the title, and below it the legend in as many lines as it needs, at the top of the canvas, and returns the rest of the canvas.
// Outside the plot, a legend never covers data.
func drawHead(c draw.Canvas, title string, entries []legendEntry) draw.Canvas {
	const gap = vg.Length(5)
	if title != "" {
		style := sans(titleSize, true)
		style.XAlign, style.YAlign = draw.XCenter, draw.YTop
		c.FillText(style, vg.Point{X: c.Center().X, Y: c.Max.Y}, title)
		c.Max.Y -= style.Height(title) + gap
	}
	style := sans(textSize, false)
	lineHeight := style.Height("X") + gap
	var lines [][]legendEntry
	var widths []vg.Length
	for _, entry := range entries {
		w := entry.sample() + gap + style.Width(entry.name) + 3*gap
		if n := len(lines); n == 0 || widths[n-1]+w > c.Size().X {
			lines, widths = append(lines, nil), append(widths, 0)
		}
		n := len(lines) - 1
		lines[n], widths[n] = append(lines[n], entry), widths[n]+w
	}
	style.YAlign = draw.YCenter
	for i, line := range lines {
		x := c.Center().X - widths[i]/2 + gap
		y := c.Max.Y - lineHeight/2
		for _, entry := range line {
			sample := entry.sample()
			if entry.line.Width > 0 {
				c.StrokeLine2(entry.line, x, y, x+sample, y)
			}
			if entry.glyph.Shape != nil {
				c.DrawGlyphNoClip(entry.glyph, vg.Point{X: x + sample/2, Y: y})
			}
			c.FillText(style, vg.Point{X: x + sample + gap, Y: y + style.FontExtents().Descent/2}, entry.name)
			x += sample + gap + style.Width(entry.name) + 3*gap
		}
		c.Max.Y -= lineHeight
	}
	c.Max.Y -= gap
	return c
}

// page fills the canvas with white and returns the part within the margins.
func page(c draw.Canvas) draw.Canvas {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	const margin = 8
	return draw.Crop(c, margin, -margin, margin, -margin)
}
