package figures

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/semcon/semcon/internal/atomicfile"
)

// Figure is a picture together with the numbers it shows.
type Figure interface {
	// Render draws the figure as SVG and as PNG of the same size. The same figure gives the same bytes. Numbers that cannot be drawn, such as series
	// of unequal length, are an error.
	Render() (svg, png []byte, err error)
	// CSV has the numbers in full precision, one per line; it is empty for a picture that shows none.
	CSV() string

	// page is what Render draws.
	page() (sheet, error)
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
func SaveAs(file string, figure Figure) error {
	if err := CheckFormat(file); err != nil {
		return err
	}
	s, err := figure.page()
	if err != nil {
		return fmt.Errorf("figure %s: %w", file, err)
	}
	content, err := map[string]func() ([]byte, error){".svg": s.svg, ".png": s.png, ".pdf": s.pdf}[filepath.Ext(file)]()
	if err != nil {
		return fmt.Errorf("figure %s: %w", file, err)
	}
	return atomicfile.WriteBytes(file, content)
}

// SaveFigure writes NAME.svg, NAME.png and, if the figure shows numbers, NAME.csv into dir, each atomically.
func SaveFigure(dir, name string, figure Figure) error {
	svg, png, err := figure.Render()
	if err != nil {
		return fmt.Errorf("figure %s: %w", name, err)
	}
	path := filepath.Join(dir, name)
	if err := atomicfile.WriteBytes(path+".svg", svg); err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(path+".png", png); err != nil {
		return err
	}
	if text := figure.CSV(); text != "" {
		return atomicfile.WriteBytes(path+".csv", []byte(text))
	}
	return nil
}

// Pictures have the width of a notebook's output cell. At 96 dots per inch one pixel of the PNG is one CSS pixel of the SVG.
const (
	dotsPerInch = 96
	pixel       = vg.Inch / dotsPerInch
	width       = 900 * pixel
)

// sheet is a page of a size with what is drawn on it.
type sheet struct {
	width, height vg.Length
	paint         func(draw.Canvas)
}

func newSheet(width, height vg.Length, paint func(draw.Canvas)) (sheet, error) {
	return sheet{width, height, paint}, nil
}

// rendered is [Figure.Render] of any figure.
func rendered(figure Figure) (svg, png []byte, err error) {
	s, err := figure.page()
	if err != nil {
		return nil, nil, err
	}
	if svg, err = s.svg(); err != nil {
		return nil, nil, err
	}
	png, err = s.png()
	return svg, png, err
}

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

func (s sheet) svg() ([]byte, error) {
	canvas := &measuringCanvas{Canvas: vgsvg.New(s.width, s.height)}
	file, err := s.encode(canvas)
	// Viewers without the Liberation fonts have others: with the same widths, or they fit each text to the width that it was laid out with.
	file = bytes.ReplaceAll(file, []byte("font-family:Liberation Sans"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
	before, rest, found := bytes.Cut(file, []byte("<text "))
	fitted := bytes.Clone(before)
	for i := 0; found; i++ {
		fitted = fmt.Appendf(fitted, "<text textLength=\"%.6g\" lengthAdjust=\"spacingAndGlyphs\" ", canvas.widths[i].Points())
		before, rest, found = bytes.Cut(rest, []byte("<text "))
		fitted = append(fitted, before...)
	}
	return fitted, err
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

func (s sheet) png() ([]byte, error) {
	return s.encode(vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(s.width, s.height), vgimg.UseDPI(dotsPerInch))})
}
