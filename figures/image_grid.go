package figures

import (
	"errors"
	"fmt"
	"image"
	"image/color"

	xdraw "golang.org/x/image/draw"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ImageGrid is a contact sheet: images in rows and columns with labels, such as an image and its augmentations.
type ImageGrid struct {
	// Title stands above the sheet; it may be empty.
	Title string
	// RowLabels stand left of the rows and ColumnLabels above the columns; either may be nil.
	RowLabels, ColumnLabels []string
	// Images are given by row and column; nil leaves a place empty, and rows may be short.
	Images [][]image.Image
	// Scale enlarges each image by a whole factor, repeating its pixels; 0 means 3.
	Scale int
	// Legend below the sheet says what colours mean; it may be nil.
	Legend []ColourName
}

// ColourName is a colour and what it means.
type ColourName struct {
	Colour color.Color
	Name   string
}

// Render implements [Figure]. The sheet is as large as its images need.
func (g ImageGrid) Render() (svg, png []byte, err error) { return rendered(g) }

func (g ImageGrid) page() (sheet, error) {
	columns, cell := 0, image.Point{}
	scale := g.Scale
	if scale == 0 {
		scale = 3
	}
	for _, row := range g.Images {
		columns = max(columns, len(row))
		for _, picture := range row {
			if picture != nil {
				size := picture.Bounds().Size().Mul(scale)
				cell = image.Pt(max(cell.X, size.X), max(cell.Y, size.Y))
			}
		}
	}
	switch {
	case scale < 0:
		return sheet{}, fmt.Errorf("scale %d is negative", scale)
	case cell.X == 0 || cell.Y == 0:
		return sheet{}, errors.New("no images")
	case g.RowLabels != nil && len(g.RowLabels) != len(g.Images):
		return sheet{}, fmt.Errorf("%d row labels for %d rows", len(g.RowLabels), len(g.Images))
	case g.ColumnLabels != nil && len(g.ColumnLabels) != columns:
		return sheet{}, fmt.Errorf("%d column labels for %d columns", len(g.ColumnLabels), columns)
	}

	// All positions are whole pixels, so that the pixels of an enlarged image stay sharp.
	const margin, gap = 8, 4
	style := sans(textSize, false)
	pixels := func(length vg.Length) int { return int(length/pixel) + 1 }
	left, pitch := margin, cell.X
	for _, label := range g.RowLabels {
		left = max(left, margin+pixels(style.Width(label))+gap*2)
	}
	lineHeight := pixels(style.Height("X"))
	top := margin
	if g.Title != "" {
		top += pixels(sans(titleSize, true).Height(g.Title)) + gap
	}
	if g.ColumnLabels != nil {
		lines := 1
		for _, label := range g.ColumnLabels {
			lines = max(lines, len(style.Handler.Lines(label)))
			pitch = max(pitch, pixels(style.Width(label))+gap)
		}
		top += lineHeight*lines + gap
	}
	w := left + columns*(pitch+gap) - gap + margin
	if g.Title != "" {
		w = max(w, pixels(sans(titleSize, true).Width(g.Title))+2*margin)
	}
	lines := g.legendLines(w-2*margin, func(name string) int { return pixels(style.Width(name)) })
	legendTop := top + len(g.Images)*(cell.Y+gap) + gap
	h := top + len(g.Images)*(cell.Y+gap) - gap + margin
	if len(lines) > 0 {
		h += len(lines)*(lineHeight+gap) + 2*gap
	}
	at := func(x, y int) vg.Point { // From the top left corner.
		return vg.Point{X: vg.Length(x) * pixel, Y: vg.Length(h-y) * pixel}
	}
	return newSheet(vg.Length(w)*pixel, vg.Length(h)*pixel, func(c draw.Canvas) {
		page(c)
		if g.Title != "" {
			title := sans(titleSize, true)
			title.YAlign = draw.YTop
			c.FillText(title, at(margin, margin), g.Title)
		}
		for i, label := range g.ColumnLabels {
			style := style
			style.XAlign, style.YAlign = draw.XCenter, draw.YBottom
			c.FillText(style, at(left+i*(pitch+gap)+pitch/2, top-gap-1), label)
		}
		for i, row := range g.Images {
			y := top + i*(cell.Y+gap)
			if g.RowLabels != nil {
				style := style
				style.XAlign, style.YAlign = draw.XRight, draw.YCenter
				c.FillText(style, at(left-2*gap, y+cell.Y/2), g.RowLabels[i])
			}
			for j, picture := range row {
				if picture == nil {
					continue
				}
				enlarged := enlarge(picture, scale)
				size := enlarged.Bounds().Size()
				x := left + j*(pitch+gap) + (pitch-size.X)/2
				c.DrawImage(vg.Rectangle{Min: at(x, y+size.Y), Max: at(x+size.X, y)}, enlarged)
			}
		}
		for i, line := range lines {
			x, y := margin, legendTop+i*(lineHeight+gap)
			for _, entry := range line {
				c.SetColor(entry.Colour)
				c.Fill(vg.Rectangle{Min: at(x, y+lineHeight-2), Max: at(x+patchWidth, y+2)}.Path())
				style := style
				style.YAlign = draw.YCenter
				c.FillText(style, at(x+patchWidth+gap, y+lineHeight/2), entry.Name)
				x += patchWidth + 4*gap + pixels(style.Width(entry.Name))
			}
		}
	})
}

// patchWidth is the width in pixels of a colour sample in a legend.
const patchWidth = 14

// legendLines breaks the legend into lines of at most this width in pixels, with at least one entry each.
func (g ImageGrid) legendLines(width int, textWidth func(string) int) (lines [][]ColourName) {
	used := 0
	for _, entry := range g.Legend {
		needed := patchWidth + 16 + textWidth(entry.Name)
		if lines == nil || used+needed > width {
			lines, used = append(lines, nil), 0
		}
		last := len(lines) - 1
		lines[last], used = append(lines[last], entry), used+needed
	}
	return lines
}

// CSV implements [Figure]: the sheet shows no numbers.
func (g ImageGrid) CSV() string { return "" }

// enlarge repeats each pixel scale times in both directions.
func enlarge(picture image.Image, scale int) image.Image {
	bounds := picture.Bounds()
	enlarged := image.NewRGBA(image.Rectangle{Max: bounds.Size().Mul(scale)})
	xdraw.NearestNeighbor.Scale(enlarged, enlarged.Bounds(), picture, bounds, xdraw.Src, nil)
	return enlarged
}
