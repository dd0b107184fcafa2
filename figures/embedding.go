package figures

import (
	"errors"
	"fmt"
	"image"
	"slices"

	"github.com/samber/lo"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

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
	records := [][]string{{"x", "y", "class"}}
	for i := range f.X {
		records = append(records, []string{exact(f.X[i]), exact(f.Y[i]), f.Classes[f.Class[i]]})
	}
	// The classes that occur get colours and shapes in their order, so that few classes are as different as can be.
	occurring := slices.Compact(slices.Sorted(slices.Values(f.Class)))
	glyph := func(class int) draw.GlyphStyle {
		i, _ := slices.BinarySearch(occurring, class)
		return draw.GlyphStyle{Color: look(i).colour(), Radius: vg.Points(2.6), Shape: glyphs[(i+i/len(palette))%len(glyphs)]}
	}
	legend := lo.Map(occurring, func(class, _ int) legendEntry { return legendEntry{name: f.Classes[class], glyph: glyph(class)} })
	return sheet{width, embeddingHeight * pixel, records, func(c draw.Canvas) {
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
