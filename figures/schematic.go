package figures

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Schematic is boxes with arrows between them, such as the parts of a method, with what a run puts into each.
type Schematic struct {
	// Title stands above all.
	Title string
	// Columns and Rows are the size of the grid that boxes lie on.
	Columns, Rows int
	Boxes         []SchematicBox
	Arrows        []SchematicArrow
	// Kinds say what the colour of a box means; kind i has the figure's colour i.
	Kinds []string
}

// SchematicBox is a box of a [Schematic]: a title, below it pictures side by side, and below them lines of text.
type SchematicBox struct {
	Row, Column int // On the grid, from the upper left.
	Columns     int // The width; 0 is 1.
	Kind        int // Its colour.
	Title       string
	Pictures    []image.Image
	Lines       []string
}

// SchematicArrow leads from a box to another one, both by their numbers. A dashed arrow carries no gradient.
type SchematicArrow struct {
	From, To int
	Dashed   bool
}

// Measures of [Schematic] in pixels.
const (
	schematicRow  = 168
	schematicGapX = 26
	schematicGapY = 22
)

// Render implements [Figure].
func (f Schematic) Render() (svg, png []byte, err error) { return rendered(f) }

// CSV implements [Figure]: box, line.
func (f Schematic) CSV() string {
	records := [][]string{{"box", "line"}}
	for _, box := range f.Boxes {
		for _, line := range box.Lines {
			records = append(records, []string{box.Title, line})
		}
	}
	return csvText(records)
}

func (f Schematic) page() (sheet, error) {
	if len(f.Boxes) == 0 {
		return sheet{}, errors.New("no boxes")
	}
	for i, box := range f.Boxes {
		if box.Row < 0 || box.Row >= f.Rows || box.Column < 0 || box.Column+max(box.Columns, 1) > f.Columns {
			return sheet{}, fmt.Errorf("box %d, %q, lies outside the grid of %d×%d", i, box.Title, f.Rows, f.Columns)
		}
	}
	for _, arrow := range f.Arrows {
		if min(arrow.From, arrow.To) < 0 || max(arrow.From, arrow.To) >= len(f.Boxes) {
			return sheet{}, fmt.Errorf("an arrow from box %d to %d of %d", arrow.From, arrow.To, len(f.Boxes))
		}
	}
	var entries []legendEntry
	for i, kind := range f.Kinds {
		entries = append(entries, legendEntry{name: kind, line: draw.LineStyle{Color: palette[i%len(palette)], Width: vg.Points(3)}})
	}
	const head = 56
	height := 16 + head + f.Rows*(schematicRow+schematicGapY)
	return newSheet(width, vg.Length(height)*pixel, func(c draw.Canvas) {
		c = page(c)
		top := c.Max.Y - head*pixel
		drawHead(c, f.Title, entries)
		pitch := (c.Size().X + schematicGapX*pixel) / vg.Length(f.Columns)
		frame := func(box SchematicBox) vg.Rectangle {
			left := c.Min.X + vg.Length(box.Column)*pitch
			upper := top - vg.Length(box.Row)*(schematicRow+schematicGapY)*pixel
			return vg.Rectangle{
				Min: vg.Point{X: left, Y: upper - schematicRow*pixel},
				Max: vg.Point{X: left + vg.Length(max(box.Columns, 1))*pitch - schematicGapX*pixel, Y: upper},
			}
		}
		for _, arrow := range f.Arrows {
			drawArrow(c, frame(f.Boxes[arrow.From]), frame(f.Boxes[arrow.To]), arrow.Dashed)
		}
		for _, box := range f.Boxes {
			box.draw(c, frame(box))
		}
	})
}

// draw draws the box within a frame: the pictures take the height that the text leaves.
func (box SchematicBox) draw(c draw.Canvas, frame vg.Rectangle) {
	c.SetColor(color.White)
	c.Fill(frame.Path())
	c.SetLineStyle(draw.LineStyle{Color: palette[box.Kind%len(palette)], Width: vg.Points(1.8)})
	c.Stroke(frame.Path())
	const gap = 4
	title, text := sans(textSize, true), sans(textSize, false)
	middle := (frame.Min.X + frame.Max.X) / 2
	title.XAlign, title.YAlign = draw.XCenter, draw.YTop
	c.FillText(title, vg.Point{X: middle, Y: frame.Max.Y - gap}, box.Title)
	lineHeight := text.Height("Xg") + 2
	upper := frame.Max.Y - gap - vg.Length(1+strings.Count(box.Title, "\n"))*(title.Height("Xg")+2) - gap/2
	lower := frame.Min.Y + gap + vg.Length(len(box.Lines))*lineHeight
	if count := vg.Length(len(box.Pictures)); count > 0 {
		side := min(upper-lower-gap, (frame.Size().X-gap*(count+1))/count)
		left := middle - (count*side+(count-1)*gap)/2
		y := (upper + lower - side) / 2
		for i, picture := range box.Pictures {
			x := left + vg.Length(i)*(side+gap)
			c.DrawImage(vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + side, Y: y + side}}, picture)
		}
		upper = lower
	}
	text.XAlign, text.YAlign = draw.XCenter, draw.YCenter
	y := (upper+frame.Min.Y+gap)/2 + vg.Length(len(box.Lines)-1)*lineHeight/2
	for i, line := range box.Lines {
		c.FillText(text, vg.Point{X: middle, Y: y - vg.Length(i)*lineHeight}, line)
	}
}

// drawArrow draws an arrow between the sides of two boxes that face one another.
func drawArrow(c draw.Canvas, from, to vg.Rectangle, dashed bool) {
	middle := func(r vg.Rectangle) vg.Point { return vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2} }
	begin, end := middle(from), middle(to)
	level := func(low, high vg.Length) (vg.Length, bool) { return (low + high) / 2, low <= high }
	var along vg.Point // The direction of the arrow's end.
	switch {
	case to.Min.X >= from.Max.X || to.Max.X <= from.Min.X:
		along = vg.Point{X: 1}
		begin.X, end.X = from.Max.X, to.Min.X
		if to.Max.X <= from.Min.X {
			along.X, begin.X, end.X = -1, from.Min.X, to.Max.X
		}
		if y, overlap := level(max(from.Min.Y, to.Min.Y), min(from.Max.Y, to.Max.Y)); overlap {
			begin.Y, end.Y = y, y
		}
	default:
		along = vg.Point{Y: -1}
		begin.Y, end.Y = from.Min.Y, to.Max.Y
		if to.Min.Y >= from.Max.Y {
			along.Y, begin.Y, end.Y = 1, from.Max.Y, to.Min.Y
		}
		if x, overlap := level(max(from.Min.X, to.Min.X), min(from.Max.X, to.Max.X)); overlap {
			begin.X, end.X = x, x
		}
	}
	const size = 6
	style := draw.LineStyle{Color: grey, Width: vg.Points(1.6)}
	if dashed {
		style.Dashes = []vg.Length{4, 3}
	}
	c.StrokeLine2(style, begin.X, begin.Y, end.X-along.X*size, end.Y-along.Y*size)
	across := vg.Point{X: along.Y, Y: along.X}
	var tip vg.Path
	tip.Move(end)
	for _, side := range []vg.Length{1, -1} {
		tip.Line(vg.Point{X: end.X - along.X*size + side*across.X*size*0.6, Y: end.Y - along.Y*size + side*across.Y*size*0.6})
	}
	tip.Close()
	c.SetColor(grey)
	c.Fill(tip)
}
