package figures

import (
	"errors"
	"fmt"
	"image"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Embedding shows labelled vectors as points of the plane, such as patches by t-SNE. The axes have no unit and are not drawn. Both axes have one scale.
type Embedding struct {
	// Title stands above the plot.
	Title string
	// X and Y are the points, and Class the class of each, a place in Classes.
	X, Y    []float64
	Class   []int
	Classes []string
	// Pictures, if there are any, are one of each point: they are drawn, framed in the colour of the class, instead of dots. A picture that would cover
	// another one is left out.
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

// Render implements [Figure].
func (f Embedding) Render() (svg, png []byte, err error) { return rendered(f) }

func (f Embedding) page() (sheet, error) {
	if err := f.check(); err != nil {
		return sheet{}, err
	}
	// The classes that occur get colours and shapes in their order, so that few classes are as different as can be.
	occurring := slices.Clone(f.Class)
	slices.Sort(occurring)
	occurring = slices.Compact(occurring)
	glyphOf := func(class int) draw.GlyphStyle {
		i, _ := slices.BinarySearch(occurring, class)
		g := glyph(palette[i%len(palette)], shape(i+i/len(palette))%shapes, false)
		g.Radius = vg.Points(2.6)
		return g
	}
	var entries []legendEntry
	for _, class := range occurring {
		entries = append(entries, legendEntry{name: f.Classes[class], glyph: glyphOf(class)})
	}
	return newSheet(width, embeddingHeight*pixel, func(c draw.Canvas) {
		c = drawHead(page(c), f.Title, entries)
		at := f.places(c)
		if f.Pictures == nil {
			for i := range f.X {
				c.DrawGlyphNoClip(glyphOf(f.Class[i]), at(i))
			}
			return
		}
		var drawn []vg.Point
		const side = pictureSide * pixel
		for i, picture := range f.Pictures {
			centre := at(i)
			if slices.ContainsFunc(drawn, func(p vg.Point) bool { return max(abs(p.X-centre.X), abs(p.Y-centre.Y)) < side }) {
				continue
			}
			drawn = append(drawn, centre)
			box := vg.Rectangle{Min: vg.Point{X: centre.X - side/2, Y: centre.Y - side/2}, Max: vg.Point{X: centre.X + side/2, Y: centre.Y + side/2}}
			c.SetColor(glyphOf(f.Class[i]).Color)
			c.Fill(box.Path())
			box.Min, box.Max = box.Min.Add(vg.Point{X: frameWidth * pixel, Y: frameWidth * pixel}), box.Max.Sub(vg.Point{X: frameWidth * pixel, Y: frameWidth * pixel})
			c.DrawImage(box, picture)
		}
	})
}

// places returns the place of each point on the canvas, with a margin of half a picture.
func (f Embedding) places(c draw.Canvas) func(i int) vg.Point {
	const margin = pictureSide / 2 * pixel
	xs, ys := newExtent(), newExtent()
	xs.add(f.X...)
	ys.add(f.Y...)
	size := c.Size()
	scale := math.Min(float64(size.X-2*margin)/max(xs.high-xs.low, 1e-12), float64(size.Y-2*margin)/max(ys.high-ys.low, 1e-12))
	return func(i int) vg.Point {
		return vg.Point{X: c.Center().X + vg.Length(scale*(f.X[i]-(xs.low+xs.high)/2)), Y: c.Center().Y + vg.Length(scale*(f.Y[i]-(ys.low+ys.high)/2))}
	}
}

func abs(x vg.Length) vg.Length { return max(x, -x) }

// CSV implements [Figure]: x, y, class.
func (f Embedding) CSV() string {
	records := [][]string{{"x", "y", "class"}}
	for i := range f.X {
		records = append(records, []string{strconv.FormatFloat(f.X[i], 'g', -1, 64), strconv.FormatFloat(f.Y[i], 'g', -1, 64), f.Classes[f.Class[i]]})
	}
	return csvText(records)
}
