package figures

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"strconv"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Matches shows pairs of images with lines between places that correspond.
type Matches struct {
	// Title stands above the pairs.
	Title string
	// Kinds are what lines of a kind mean; kind i has the figure's colour and dash i.
	Kinds []string
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

// Sizes of [Matches] in pixels.
const (
	matchSide    = 190
	matchColumns = 2
	matchGap     = 24 // Between the images of a pair.
)

// Render implements [Figure].
func (f Matches) Render() (svg, png []byte, err error) { return rendered(f) }

func (f Matches) page() (sheet, error) {
	if len(f.Pairs) == 0 {
		return sheet{}, errors.New("no pairs")
	}
	var entries []legendEntry
	style := func(kind int) draw.LineStyle {
		return draw.LineStyle{Color: palette[kind%len(palette)], Width: vg.Points(1.2), Dashes: dashes[kind%len(dashes)]}
	}
	for i, kind := range f.Kinds {
		entries = append(entries, legendEntry{name: kind, line: style(i)})
	}
	for i, pair := range f.Pairs {
		for _, line := range pair.Lines {
			if line.Kind < 0 || line.Kind >= len(f.Kinds) {
				return sheet{}, fmt.Errorf("pair %d: a line has kind %d of %d", i, line.Kind, len(f.Kinds))
			}
		}
	}
	const head, label, gap = 50, 20, 10
	rows := (len(f.Pairs) + matchColumns - 1) / matchColumns
	height := 16 + head + rows*(matchSide+label+gap)
	return newSheet(width, vg.Length(height)*pixel, func(c draw.Canvas) {
		c = page(c)
		top := c.Max.Y - head*pixel
		drawHead(c, f.Title, entries)
		pitch := c.Size().X / matchColumns
		text := sans(textSize, false)
		text.XAlign, text.YAlign = draw.XCenter, draw.YBottom
		for i, pair := range f.Pairs {
			left := c.Min.X + vg.Length(i%matchColumns)*pitch + (pitch-(2*matchSide+matchGap)*pixel)/2
			upper := top - vg.Length(i/matchColumns)*(matchSide+label+gap)*pixel - label*pixel
			c.FillText(text, vg.Point{X: left + (matchSide+matchGap/2)*pixel, Y: upper + 4*pixel}, pair.Label)
			at := func(which int, x, y float64) vg.Point {
				start := left + vg.Length(which)*(matchSide+matchGap)*pixel
				return vg.Point{X: start + vg.Length(x)*matchSide*pixel, Y: upper - vg.Length(y)*matchSide*pixel}
			}
			for which, picture := range []image.Image{pair.First, pair.Second} {
				c.DrawImage(vg.Rectangle{Min: at(which, 0, 1), Max: at(which, 1, 0)}, picture)
			}
			for _, line := range pair.Lines {
				from, to := at(0, line.FromX, line.FromY), at(1, line.ToX, line.ToY)
				c.StrokeLine2(draw.LineStyle{Color: color.White, Width: vg.Points(2.6)}, from.X, from.Y, to.X, to.Y) // Seen on any picture.
				c.StrokeLine2(style(line.Kind), from.X, from.Y, to.X, to.Y)
				for _, end := range []vg.Point{from, to} {
					c.DrawGlyphNoClip(draw.GlyphStyle{Color: palette[line.Kind%len(palette)], Radius: vg.Points(2), Shape: marker{circle, false}}, end)
				}
			}
		}
	})
}

// CSV implements [Figure]: pair, from x, from y, to x, to y, kind.
func (f Matches) CSV() string {
	records := [][]string{{"pair", "from x", "from y", "to x", "to y", "kind"}}
	for i, pair := range f.Pairs {
		for _, line := range pair.Lines {
			record := []string{strconv.Itoa(i)}
			for _, x := range []float64{line.FromX, line.FromY, line.ToX, line.ToY} {
				record = append(record, strconv.FormatFloat(x, 'g', -1, 64))
			}
			records = append(records, append(record, f.Kinds[line.Kind]))
		}
	}
	return csvText(records)
}
