package figures

import (
	"image"
	"image/color"
	"math"
	"slices"

	"github.com/semcon/semcon/sccore/rle"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// Object is an object to draw on an image.
type Object struct {
	Box   [4]float64 // x1, y1, x2, y2 in pixels.
	Mask  rle.Mask   // Of the image's size; the zero value for none.
	Class int        // Its colour: that of [ClassColour] for the class after it, because the first one is that of grounds.
	Label string     // In ASCII; empty for none.
}

// DrawObjects draws objects on an image that is enlarged by a whole factor, the first one on top: the mask as a tint, the box, and the label at the box's
// upper left corner.
func DrawObjects(picture image.Image, objects []Object, scale int) *image.RGBA {
	drawn := enlarge(picture, scale).(*image.RGBA)
	size := drawn.Rect.Size()
	for _, object := range slices.Backward(objects) {
		colour := ClassColour(uint8((object.Class + 1) % int(IgnoredClass)))
		if height, width := object.Mask.Size(); height > 0 && height*scale == size.Y && width*scale == size.X {
			inside := object.Mask.Pixels()
			for y := range size.Y {
				for x := range size.X {
					if inside[y/scale*width+x/scale] {
						drawn.SetRGBA(x, y, mixed(drawn.RGBAAt(x, y), colour))
					}
				}
			}
		}
		at := func(v float64, length int) int { return min(max(int(math.Round(v*float64(scale))), 0), length-1) }
		box := image.Rect(at(object.Box[0], size.X), at(object.Box[1], size.Y), at(object.Box[2], size.X), at(object.Box[3], size.Y))
		frame(drawn, box, colour)
		label(drawn, box.Min, object.Label, colour)
	}
	return drawn
}

// mixed is the mean of two colours.
func mixed(a, b color.RGBA) color.RGBA {
	mean := func(a, b uint8) uint8 { return uint8((int(a) + int(b)) / 2) }
	return color.RGBA{mean(a.R, b.R), mean(a.G, b.G), mean(a.B, b.B), 255}
}

// frame draws the outline of a box, with lines of two pixels in large pictures.
func frame(picture *image.RGBA, box image.Rectangle, colour color.RGBA) {
	thick := 1
	if picture.Rect.Dx() > 300 {
		thick = 2
	}
	for i := range thick {
		for x := box.Min.X; x <= box.Max.X; x++ {
			picture.SetRGBA(x, box.Min.Y+i, colour)
			picture.SetRGBA(x, box.Max.Y-i, colour)
		}
		for y := box.Min.Y; y <= box.Max.Y; y++ {
			picture.SetRGBA(box.Min.X+i, y, colour)
			picture.SetRGBA(box.Max.X-i, y, colour)
		}
	}
}

// label writes a text on a ground of the colour, within the picture.
func label(picture *image.RGBA, corner image.Point, text string, colour color.RGBA) {
	if text == "" {
		return
	}
	face := basicfont.Face7x13
	width := font.MeasureString(face, text).Ceil() + 2
	left, top := max(0, min(corner.X, picture.Rect.Dx()-width)), max(0, min(corner.Y, picture.Rect.Dy()-face.Height))
	for y := top; y < top+face.Height; y++ {
		for x := left; x < left+width; x++ {
			picture.SetRGBA(x, y, colour)
		}
	}
	ink := color.RGBA{A: 255}
	if 3*int(colour.R)+6*int(colour.G)+int(colour.B) < 1275 { // Half of white.
		ink = color.RGBA{255, 255, 255, 255}
	}
	drawer := font.Drawer{Dst: picture, Src: image.NewUniform(ink), Face: face, Dot: fixed.P(left+1, top+face.Ascent)}
	drawer.DrawString(text)
}
