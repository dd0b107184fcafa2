package figures

import (
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/color"
	"strconv"
	"strings"

	"github.com/samber/lo"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ImageGrid is a contact sheet: images in rows and columns with labels, such as an image and its augmentations.
type ImageGrid struct {
	Title                   string          // May be empty.
	RowLabels, ColumnLabels []string        // Left of the rows and above the columns; either may be nil.
	Images                  [][]image.Image // By row and column; nil leaves a place empty, and rows may be short.
	Scale                   int             // The whole factor by which each image is enlarged, repeating its pixels; 0 means 3.
	Legend                  []ColourName    // What colours mean, below the sheet; may be nil.
}

// ColourName is a colour and what it means.
type ColourName struct {
	Colour color.Color
	Name   string
}

// sheet implements [Figure]. The sheet is as large as its images need.
func (g ImageGrid) sheet() (sheet, error) {
	columns, cell := 0, image.Point{}
	g.Scale = cmp.Or(g.Scale, 3)
	for _, row := range g.Images {
		columns = max(columns, len(row))
		for _, picture := range row {
			if picture != nil {
				size := picture.Bounds().Size().Mul(g.Scale)
				cell = image.Pt(max(cell.X, size.X), max(cell.Y, size.Y))
			}
		}
	}
	switch {
	case g.Scale < 0:
		return sheet{}, fmt.Errorf("scale %d is negative", g.Scale)
	case cell.X == 0 || cell.Y == 0:
		return sheet{}, errors.New("no images")
	case g.RowLabels != nil && len(g.RowLabels) != len(g.Images):
		return sheet{}, fmt.Errorf("%d row labels for %d rows", len(g.RowLabels), len(g.Images))
	case g.ColumnLabels != nil && len(g.ColumnLabels) != columns:
		return sheet{}, fmt.Errorf("%d column labels for %d columns", len(g.ColumnLabels), columns)
	}

	// All positions are whole pixels, so that the pixels of an enlarged image stay sharp.
	const margin, gap = 8, 4
	title, style := sans(titleSize, true, draw.XLeft, draw.YTop), sans(textSize, false, draw.XCenter, draw.YBottom)
	pixels := func(length vg.Length) int { return int(length/pixel) + 1 }
	widest := func(labels []string) int {
		return lo.Max(lo.Map(labels, func(label string, _ int) int { return pixels(style.Width(label)) }))
	}
	left, top, pitch, w := margin, margin, cell.X, 0
	if len(g.RowLabels) > 0 {
		left += widest(g.RowLabels) + gap*2
	}
	if g.Title != "" {
		top += pixels(title.Height(g.Title)) + gap
		w = pixels(title.Width(g.Title)) + 2*margin
	}
	if g.ColumnLabels != nil {
		lines := lo.Max(lo.Map(g.ColumnLabels, func(label string, _ int) int { return len(style.Handler.Lines(label)) }))
		pitch = max(pitch, widest(g.ColumnLabels)+gap)
		top += pixels(style.Height("X"))*lines + gap
	}
	w = max(w, left+columns*(pitch+gap)-gap+margin)
	legend := legendRows(lo.Map(g.Legend, func(entry ColourName, _ int) legendEntry {
		return legendEntry{name: entry.Name, glyph: draw.GlyphStyle{Color: entry.Colour, Radius: vg.Points(4.5), Shape: draw.BoxGlyph{}}}
	}), vg.Length(w-2*margin)*pixel)
	bottom := top + len(g.Images)*(cell.Y+gap)
	h := bottom - gap + margin
	if len(legend) > 0 {
		h += len(legend)*pixels(legendLine) + 2*gap
	}
	at := func(x, y int) vg.Point { // From the top left corner.
		return vg.Point{X: vg.Length(x) * pixel, Y: vg.Length(h-y) * pixel}
	}
	return sheet{vg.Length(w) * pixel, vg.Length(h) * pixel, nil, func(c draw.Canvas) {
		page(c)
		c.FillText(title, at(margin, margin), g.Title)
		for i, text := range g.ColumnLabels {
			c.FillText(style, at(left+i*(pitch+gap)+pitch/2, top-gap-1), text)
		}
		for i, row := range g.Images {
			y := top + i*(cell.Y+gap)
			if g.RowLabels != nil {
				c.FillText(sans(textSize, false, draw.XRight, draw.YCenter), at(left-2*gap, y+cell.Y/2), g.RowLabels[i])
			}
			for j, picture := range row {
				if picture != nil {
					enlarged := enlarge(picture, g.Scale)
					size := enlarged.Bounds().Size()
					x := left + j*(pitch+gap) + (pitch-size.X)/2
					c.DrawImage(vg.Rectangle{Min: at(x, y+size.Y), Max: at(x+size.X, y)}, enlarged)
				}
			}
		}
		for i, row := range legend {
			from := at(margin, bottom+gap+i*pixels(legendLine)+pixels(legendLine)/2)
			drawLegend(c, row, from.X, from.Y)
		}
	}}, nil
}

// Matches shows pairs of images with lines between places that correspond.
type Matches struct {
	Title string
	Kinds []string // What lines of a kind mean; kind i has the figure's colour and dash i.
	Pairs []MatchedPair
}

// MatchedPair is a pair of images of one size, with lines.
type MatchedPair struct {
	Label         string // Stands above the pair; may be empty.
	First, Second image.Image
	Lines         []MatchLine
}

// MatchLine joins a place of the first image with one of the second. Places are shares of the width and the height, from the upper left.
type MatchLine struct {
	FromX, FromY, ToX, ToY float64
	Kind                   int
}

// sheet implements [Figure], with records of pair, from x, from y, to x, to y, kind.
func (f Matches) sheet() (sheet, error) {
	if len(f.Pairs) == 0 {
		return sheet{}, errors.New("no pairs")
	}
	records := [][]string{{"pair", "from x", "from y", "to x", "to y", "kind"}}
	for i, pair := range f.Pairs {
		for _, line := range pair.Lines {
			if line.Kind < 0 || line.Kind >= len(f.Kinds) {
				return sheet{}, fmt.Errorf("pair %d: a line has kind %d of %d", i, line.Kind, len(f.Kinds))
			}
			records = append(records, []string{strconv.Itoa(i), exact(line.FromX), exact(line.FromY), exact(line.ToX), exact(line.ToY), f.Kinds[line.Kind]})
		}
	}
	legend := lo.Map(f.Kinds, func(kind string, i int) legendEntry { return legendEntry{name: kind, line: look(i).line(1.2)} })
	const head, label, gap, columns = 50, 20, 10, 2 // In pixels, as what follows.
	const side, apart = 190, 24                     // Of an image, and between the images of a pair.
	rows := (len(f.Pairs) + columns - 1) / columns
	height := 16 + head + rows*(side+label+gap)
	return sheet{width, vg.Length(height) * pixel, records, func(c draw.Canvas) {
		c = page(c)
		top := c.Max.Y - head*pixel
		drawHead(c, f.Title, legend)
		pitch := c.Size().X / columns
		for i, pair := range f.Pairs {
			left := c.Min.X + vg.Length(i%columns)*pitch + (pitch-(2*side+apart)*pixel)/2
			upper := top - vg.Length(i/columns)*(side+label+gap)*pixel - label*pixel
			c.FillText(sans(textSize, false, draw.XCenter, draw.YBottom), vg.Point{X: left + (side+apart/2)*pixel, Y: upper + 4*pixel}, pair.Label)
			at := func(which int, x, y float64) vg.Point {
				start := left + vg.Length(which)*(side+apart)*pixel
				return vg.Point{X: start + vg.Length(x)*side*pixel, Y: upper - vg.Length(y)*side*pixel}
			}
			for which, picture := range []image.Image{pair.First, pair.Second} {
				c.DrawImage(vg.Rectangle{Min: at(which, 0, 1), Max: at(which, 1, 0)}, picture)
			}
			for _, line := range pair.Lines {
				from, to, style := at(0, line.FromX, line.FromY), at(1, line.ToX, line.ToY), look(line.Kind).line(1.2)
				c.StrokeLine2(draw.LineStyle{Color: color.White, Width: vg.Points(2.6)}, from.X, from.Y, to.X, to.Y) // Seen on any picture.
				c.StrokeLine2(style, from.X, from.Y, to.X, to.Y)
				for _, end := range []vg.Point{from, to} {
					c.DrawGlyphNoClip(draw.GlyphStyle{Color: style.Color, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}, end)
				}
			}
		}
	}}, nil
}

// Schematic is boxes with arrows between them, such as the parts of a method, with what a run puts into each.
type Schematic struct {
	Title         string
	Columns, Rows int // The size of the grid that boxes lie on.
	Boxes         []SchematicBox
	Arrows        []SchematicArrow
	Kinds         []string // What the colour of a box means; kind i has the figure's colour i.
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

// sheet implements [Figure], with records of box, line.
func (f Schematic) sheet() (sheet, error) {
	if len(f.Boxes) == 0 {
		return sheet{}, errors.New("no boxes")
	}
	records := [][]string{{"box", "line"}}
	for i, box := range f.Boxes {
		if box.Row < 0 || box.Row >= f.Rows || box.Column < 0 || box.Column+max(box.Columns, 1) > f.Columns {
			return sheet{}, fmt.Errorf("box %d, %q, lies outside the grid of %d×%d", i, box.Title, f.Rows, f.Columns)
		}
		records = append(records, lo.Map(box.Lines, func(line string, _ int) []string { return []string{box.Title, line} })...)
	}
	for _, arrow := range f.Arrows {
		if min(arrow.From, arrow.To) < 0 || max(arrow.From, arrow.To) >= len(f.Boxes) {
			return sheet{}, fmt.Errorf("an arrow from box %d to %d of %d", arrow.From, arrow.To, len(f.Boxes))
		}
	}
	legend := lo.Map(f.Kinds, func(kind string, i int) legendEntry {
		return legendEntry{name: kind, line: draw.LineStyle{Color: look(i).colour(), Width: vg.Points(3)}}
	})
	const head, row, gapX, gapY = 56, 168, 26, 22 // In pixels.
	height := 16 + head + f.Rows*(row+gapY)
	return sheet{width, vg.Length(height) * pixel, records, func(c draw.Canvas) {
		c = page(c)
		top := c.Max.Y - head*pixel
		drawHead(c, f.Title, legend)
		pitch := (c.Size().X + gapX*pixel) / vg.Length(f.Columns)
		frames := make([]vg.Rectangle, len(f.Boxes))
		for i, box := range f.Boxes {
			left, upper := c.Min.X+vg.Length(box.Column)*pitch, top-vg.Length(box.Row)*(row+gapY)*pixel
			right := left + vg.Length(max(box.Columns, 1))*pitch - gapX*pixel
			frames[i] = vg.Rectangle{Min: vg.Point{X: left, Y: upper - row*pixel}, Max: vg.Point{X: right, Y: upper}}
		}
		for _, arrow := range f.Arrows {
			drawArrow(c, frames[arrow.From], frames[arrow.To], arrow.Dashed)
		}
		for i, box := range f.Boxes {
			box.draw(c, frames[i])
		}
	}}, nil
}

// draw draws the box within a frame: the pictures take the height that the text leaves.
func (box SchematicBox) draw(c draw.Canvas, frame vg.Rectangle) {
	c.SetColor(color.White)
	c.Fill(frame.Path())
	c.SetLineStyle(draw.LineStyle{Color: look(box.Kind).colour(), Width: vg.Points(1.8)})
	c.Stroke(frame.Path())
	const gap = 4
	title, text := sans(textSize, true, draw.XCenter, draw.YTop), sans(textSize, false, draw.XCenter, draw.YCenter)
	middle := (frame.Min.X + frame.Max.X) / 2
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
	y := (upper+frame.Min.Y+gap)/2 + vg.Length(len(box.Lines)-1)*lineHeight/2
	for i, line := range box.Lines {
		c.FillText(text, vg.Point{X: middle, Y: y - vg.Length(i)*lineHeight}, line)
	}
}

// drawArrow draws an arrow between the sides of two boxes that face one another.
func drawArrow(c draw.Canvas, from, to vg.Rectangle, dashed bool) {
	// ends returns where the arrow begins and ends on an axis, and its direction there: 0 at the middle of what the boxes share, or at their middles.
	ends := func(fromMin, fromMax, toMin, toMax vg.Length, facing bool) (begin, end, direction vg.Length) {
		low, high := max(fromMin, toMin), min(fromMax, toMax)
		switch {
		case facing && toMin >= fromMax:
			return fromMax, toMin, 1
		case facing:
			return fromMin, toMax, -1
		case low <= high:
			return (low + high) / 2, (low + high) / 2, 0
		}
		return (fromMin + fromMax) / 2, (toMin + toMax) / 2, 0
	}
	var begin, end, along vg.Point // along is the direction of the arrow's end.
	beside := to.Min.X >= from.Max.X || to.Max.X <= from.Min.X
	begin.X, end.X, along.X = ends(from.Min.X, from.Max.X, to.Min.X, to.Max.X, beside)
	begin.Y, end.Y, along.Y = ends(from.Min.Y, from.Max.Y, to.Min.Y, to.Max.Y, !beside)
	const size = 6
	style := draw.LineStyle{Color: grey, Width: vg.Points(1.6)}
	if dashed {
		style.Dashes = []vg.Length{4, 3}
	}
	c.StrokeLine2(style, begin.X, begin.Y, end.X-along.X*size, end.Y-along.Y*size)
	var tip vg.Path
	tip.Move(end)
	for _, side := range []vg.Length{0.6, -0.6} {
		tip.Line(vg.Point{X: end.X - (along.X-side*along.Y)*size, Y: end.Y - (along.Y-side*along.X)*size})
	}
	tip.Close()
	c.SetColor(grey)
	c.Fill(tip)
}
