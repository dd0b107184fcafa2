package figures

import (
	"fmt"
	"regexp"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	plotfont "gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgpdf"
)

// pdfDate is where a PDF says when it was made.
var pdfDate = regexp.MustCompile(`\((D:)\d{14}`)

func (s sheet) pdf() ([]byte, error) {
	file, err := s.encode(outlined{vgpdf.New(s.width, s.height)})
	return pdfDate.ReplaceAll(file, []byte("(${1}20000101000000")), err // The same figure gives the same bytes.
}

// outlined is a PDF whose text is drawn as the outlines of its letters. vgpdf's own text has no bold fonts, and none of the letters outside Windows' code page,
// such as λ and −.
type outlined struct{ *vgpdf.Canvas }

// FillString implements [vg.Canvas].
func (c outlined) FillString(face plotfont.Face, at vg.Point, text string) {
	var buffer sfnt.Buffer
	size := fixed.Int26_6(face.Font.Size.Points()*64 + 0.5)
	previous := sfnt.GlyphIndex(0)
	for i, letter := range text {
		glyph, err := face.Face.GlyphIndex(&buffer, letter)
		if err != nil {
			panic(fmt.Sprintf("figures: letter %q: %v", letter, err))
		}
		if i > 0 {
			if kern, err := face.Face.Kern(&buffer, previous, glyph, size, font.HintingNone); err == nil {
				at.X += points(kern)
			}
		}
		segments, err := face.Face.LoadGlyph(&buffer, glyph, size, nil)
		if err != nil {
			panic(fmt.Sprintf("figures: letter %q: %v", letter, err))
		}
		if path := outline(segments, at); len(path) > 0 {
			c.Fill(path)
		}
		advance, err := face.Face.GlyphAdvance(&buffer, glyph, size, font.HintingNone)
		if err != nil {
			panic(fmt.Sprintf("figures: letter %q: %v", letter, err))
		}
		at.X += points(advance)
		previous = glyph
	}
}

func points(x fixed.Int26_6) vg.Length { return vg.Points(float64(x) / 64) }

// outline places the outline of a letter at a point of its base line.
func outline(segments sfnt.Segments, at vg.Point) (path vg.Path) {
	place := func(p fixed.Point26_6) vg.Point { return vg.Point{X: at.X + points(p.X), Y: at.Y - points(p.Y)} }
	for i, s := range segments {
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			if i > 0 {
				path.Close()
			}
			path.Move(place(s.Args[0]))
		case sfnt.SegmentOpLineTo:
			path.Line(place(s.Args[0]))
		case sfnt.SegmentOpQuadTo:
			path.QuadTo(place(s.Args[0]), place(s.Args[1]))
		case sfnt.SegmentOpCubeTo:
			path.CubeTo(place(s.Args[0]), place(s.Args[1]), place(s.Args[2]))
		}
	}
	if len(path) > 0 {
		path.Close()
	}
	return path
}
