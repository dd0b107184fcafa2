package figures

import (
	"image"
	"image/color"
	"image/draw"
	"math"
)

// HeatImage paints values, row by row with this many columns, as squares of an image of height×width pixels: the lowest dark, the highest pale. NaN
// is grey.
func HeatImage(values []float64, columns, height, width int) image.Image {
	shown := newExtent()
	shown.add(values...)
	rows := len(values) / columns
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			value := values[y*rows/height*columns+x*columns/width]
			ink := color.Color(missingColour)
			if isFinite(value) {
				ink = colourAt((value - shown.low) / max(shown.high-shown.low, math.SmallestNonzeroFloat64))
			}
			picture.Set(x, y, ink)
		}
	}
	return picture
}

// Box is a rectangle in shares of an image's height and width.
type Box struct{ Top, Left, Height, Width float64 }

// DrawBoxes returns a copy of an image, enlarged by a whole factor, with boxes drawn on it in the colours of a figure's series.
func DrawBoxes(picture image.Image, enlargement int, boxes ...Box) image.Image {
	drawn := enlarge(picture, enlargement).(*image.RGBA)
	size := drawn.Bounds().Size()
	const thick = 2
	for i, box := range boxes {
		at := func(share float64, of int) int { return min(max(int(math.Round(share*float64(of))), 0), of) }
		top, left := at(box.Top, size.Y), at(box.Left, size.X)
		bottom, right := at(box.Top+box.Height, size.Y), at(box.Left+box.Width, size.X)
		ink := image.NewUniform(palette[i%len(palette)])
		for _, side := range []image.Rectangle{
			image.Rect(left, top, right, top+thick), image.Rect(left, bottom-thick, right, bottom),
			image.Rect(left, top, left+thick, bottom), image.Rect(right-thick, top, right, bottom),
		} {
			draw.Draw(drawn, side, ink, image.Point{}, draw.Src)
		}
	}
	return drawn
}
