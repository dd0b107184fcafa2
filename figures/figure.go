package figures

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

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

// render draws onto an SVG and a PNG canvas.
func render(width, height vg.Length, paint func(draw.Canvas)) (svg, png []byte, err error) {
	vector := vgsvg.New(width, height)
	paint(draw.New(vector))
	var buffer bytes.Buffer
	if _, err := vector.WriteTo(&buffer); err != nil {
		return nil, nil, err
	}
	// Viewers without the Liberation fonts have others with the same widths.
	svg = []byte(strings.ReplaceAll(buffer.String(), "font-family:Liberation Sans", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))

	raster := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))}
	paint(draw.New(raster))
	buffer.Reset()
	if _, err := raster.WriteTo(&buffer); err != nil {
		return nil, nil, err
	}
	return svg, buffer.Bytes(), nil
}
