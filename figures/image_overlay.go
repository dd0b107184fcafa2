package figures

import (
	"image"
	"image/color"

	"golang.org/x/image/draw"
)

// overlayWidth is the width of a frame in a sheet, in pixels.
const overlayWidth = 190

// Overlay draws a frame with each object tinted in its own colour, from Okabe and Ito's colours, which colour-blind people can tell apart.
func Overlay(pixels, labels []uint8, height, width int) image.Image {
	tints := []color.RGBA{{230, 159, 0, 255}, {86, 180, 233, 255}, {0, 158, 115, 255}, {240, 228, 66, 255}, {204, 121, 167, 255}, {213, 94, 0, 255}}
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for p, label := range labels {
		red, green, blue := pixels[3*p], pixels[3*p+1], pixels[3*p+2]
		if label > 0 {
			tint := tints[int(label-1)%len(tints)]
			mix := func(a, b uint8) uint8 { return uint8((2*int(a) + 3*int(b)) / 5) }
			red, green, blue = mix(red, tint.R), mix(green, tint.G), mix(blue, tint.B)
		}
		picture.SetRGBA(p%width, p/width, color.RGBA{red, green, blue, 255})
	}
	small := image.NewRGBA(image.Rect(0, 0, overlayWidth, max(1, height*overlayWidth/width)))
	draw.CatmullRom.Scale(small, small.Rect, picture, picture.Rect, draw.Src, nil)
	return small
}
