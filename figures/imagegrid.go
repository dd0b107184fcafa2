package figures

import (
	"errors"
	"fmt"
	"image"

	xdraw "golang.org/x/image/draw"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ImageGrid is a contact sheet: images in rows and columns with their names, such as an image and its augmentations.
type ImageGrid struct {
	// Title above the sheet; may be empty.
	Title string
	// RowLabels stand left of the rows and ColumnLabels above the columns; either may be nil.
	RowLabels, ColumnLabels []string
	// Images by row and column; nil leaves a place empty, and rows may be short.
	Images [][]image.Image
	// Scale enlarges each image by a whole factor and repeats its pixels; 0 means 3.
	Scale int
}

// Render implements [Figure]. The sheet is as large as its images ask for.
func (g ImageGrid) Render() (svg, png []byte, err error) {
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
		return nil, nil, fmt.Errorf("scale %d is negative", scale)
	case cell.X == 0 || cell.Y == 0:
		return nil, nil, errors.New("no images")
	case g.RowLabels != nil && len(g.RowLabels) != len(g.Images):
		return nil, nil, fmt.Errorf("%d row labels for %d rows", len(g.RowLabels), len(g.Images))
	case g.ColumnLabels != nil && len(g.ColumnLabels) != columns:
		return nil, nil, fmt.Errorf("%d column labels for %d columns", len(g.ColumnLabels), columns)
	}

	// All places are whole pixels, so that an enlarged image lands on the raster as it is.
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
	h := top + len(g.Images)*(cell.Y+gap) - gap + margin
	at := func(x, y int) vg.Point { // from the top left corner
		return vg.Point{X: vg.Length(x) * pixel, Y: vg.Length(h-y) * pixel}
	}
	return render(vg.Length(w)*pixel, vg.Length(h)*pixel, func(c draw.Canvas) {
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
	})
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
