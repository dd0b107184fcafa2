package figures

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/janpfeifer/must"
	"github.com/semcon/semcon/internal/atomicfile"
	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is a picture together with the numbers it shows. [Render] and [CSV] write it, and [SaveFigure] and [SaveAs] to files.
type Figure interface {
	// sheet lays the figure out. Numbers that cannot be drawn, such as series of unequal length, are an error.
	sheet() (sheet, error)
}

// sheet is a page with what is drawn on it.
type sheet struct {
	width, height vg.Length
	records       [][]string // The numbers, below their names; nil for a picture that shows none.
	paint         func(draw.Canvas)
}

// Render draws a figure as SVG and as PNG of the same size. The same figure gives the same bytes.
func Render(figure Figure) (svg, png []byte, err error) {
	defer try.Handle(&err)
	s := try.E1(figure.sheet())
	return try.E1(s.svg()), try.E1(s.png()), nil
}

// CSV has the numbers of a figure in full precision. It is empty for a picture that shows none, and for a figure that cannot be drawn.
func CSV(figure Figure) string {
	s, err := figure.sheet()
	if err != nil || s.records == nil {
		return ""
	}
	return csvText(s.records)
}

// FigureFormats are the formats that [SaveAs] knows, by the ending of the file.
var FigureFormats = []string{".svg", ".png", ".pdf"}

// CheckFormat returns an error unless the file's ending is one of [FigureFormats].
func CheckFormat(file string) error {
	if !slices.Contains(FigureFormats, filepath.Ext(file)) {
		return fmt.Errorf("%s: want a file that ends with one of %s", file, strings.Join(FigureFormats, ", "))
	}
	return nil
}

// SaveAs writes a figure to a file, atomically, in the format that its ending names. Text of a PDF is drawn as outlines.
func SaveAs(file string, figure Figure) (err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("figure %s: %w", file, err) })
	if err := CheckFormat(file); err != nil {
		return err
	}
	try.E1(figure.sheet()).save(file)
	return nil
}

// SaveFigure writes NAME.svg, NAME.png and, if the figure shows numbers, NAME.csv into dir, each atomically.
func SaveFigure(dir, name string, figure Figure) (err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("figure %s: %w", name, err) })
	s, path := try.E1(figure.sheet()), filepath.Join(dir, name)
	s.save(path + ".svg")
	s.save(path + ".png")
	if s.records != nil {
		try.E(atomicfile.WriteBytes(path+".csv", []byte(csvText(s.records))))
	}
	return nil
}

// save ends the function that calls it with an error.
func (s sheet) save(file string) {
	content := try.E1(map[string]func() ([]byte, error){".svg": s.svg, ".png": s.png, ".pdf": s.pdf}[filepath.Ext(file)]())
	try.E(atomicfile.WriteBytes(file, content))
}

// alone is the sheet of a row of one figure, whose records do not name the figure.
func alone(row Figure) (sheet, error) {
	s, err := row.sheet()
	for i := range s.records {
		s.records[i] = s.records[i][1:]
	}
	return s, err
}

// Pictures have the width of a notebook's output cell. At 96 dots per inch one pixel of the PNG is one CSS pixel of the SVG.
const (
	dotsPerInch = 96
	pixel       = vg.Inch / dotsPerInch
	width       = 900 * pixel
)

// encode draws onto a canvas and returns its file.
func (s sheet) encode(canvas interface {
	vg.CanvasSizer
	io.WriterTo
}) ([]byte, error) {
	s.paint(draw.New(canvas))
	var buffer bytes.Buffer
	_, err := canvas.WriteTo(&buffer)
	return buffer.Bytes(), err
}

func (s sheet) png() ([]byte, error) {
	return s.encode(vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(s.width, s.height), vgimg.UseDPI(dotsPerInch))})
}

func (s sheet) svg() ([]byte, error) {
	canvas := &measuringCanvas{Canvas: vgsvg.New(s.width, s.height)}
	file, err := s.encode(canvas)
	// Viewers without the Liberation fonts have others: with the same widths, or they fit each text to the width that it was laid out with.
	file = bytes.ReplaceAll(file, []byte("font-family:Liberation Sans"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
	parts := bytes.Split(file, []byte("<text "))
	for i, width := range canvas.widths {
		parts[i+1] = fmt.Appendf(nil, "textLength=\"%.6g\" lengthAdjust=\"spacingAndGlyphs\" %s", width.Points(), parts[i+1])
	}
	return bytes.Join(parts, []byte("<text ")), err
}

// measuringCanvas measures the texts that are drawn.
type measuringCanvas struct {
	*vgsvg.Canvas
	widths []vg.Length // In the order of the texts.
}

// FillString draws a text and measures it.
func (c *measuringCanvas) FillString(f font.Face, at vg.Point, text string) {
	if text != "" { // A width of 0 is an error to viewers.
		c.widths = append(c.widths, f.Width(text))
		c.Canvas.FillString(f, at, text)
	}
}

// pdfDate is where a PDF says when it was made.
var pdfDate = regexp.MustCompile(`\((D:)\d{14}`)

func (s sheet) pdf() ([]byte, error) {
	file, err := s.encode(outlined{vgpdf.New(s.width, s.height)})
	return pdfDate.ReplaceAll(file, []byte("(${1}20000101000000")), err // The same figure gives the same bytes.
}

// outlined is a PDF whose text is drawn as outlines. vgpdf's own text has no bold fonts, and no letters outside Windows' code page, such as λ and −.
type outlined struct{ *vgpdf.Canvas }

// FillString implements [vg.Canvas].
func (c outlined) FillString(face font.Face, at vg.Point, text string) {
	var buffer sfnt.Buffer
	size := fixed.Int26_6(face.Font.Size.Points()*64 + 0.5)
	previous := sfnt.GlyphIndex(0)
	for i, letter := range text { // No font of figures fails.
		glyph := must.M1(face.Face.GlyphIndex(&buffer, letter))
		if i > 0 {
			if kern, err := face.Face.Kern(&buffer, previous, glyph, size, xfont.HintingNone); err == nil {
				at.X += points(kern)
			}
		}
		if path := outline(must.M1(face.Face.LoadGlyph(&buffer, glyph, size, nil)), at); len(path) > 0 {
			c.Fill(path)
		}
		at.X += points(must.M1(face.Face.GlyphAdvance(&buffer, glyph, size, xfont.HintingNone)))
		previous = glyph
	}
}

func points(x fixed.Int26_6) vg.Length { return vg.Points(float64(x) / 64) }

// outline places the outline of a letter at a point of its base line.
func outline(segments sfnt.Segments, at vg.Point) (path vg.Path) {
	for i, s := range segments {
		var p [3]vg.Point
		for j, arg := range s.Args {
			p[j] = vg.Point{X: at.X + points(arg.X), Y: at.Y - points(arg.Y)}
		}
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			if i > 0 {
				path.Close()
			}
			path.Move(p[0])
		case sfnt.SegmentOpLineTo:
			path.Line(p[0])
		case sfnt.SegmentOpQuadTo:
			path.QuadTo(p[0], p[1])
		case sfnt.SegmentOpCubeTo:
			path.CubeTo(p[0], p[1], p[2])
		}
	}
	if len(path) > 0 {
		path.Close()
	}
	return path
}
