package figures

import (
	"image"
	"image/color"
	"math"
)

// IgnoredClass is the class of pixels that are not annotated; [ClassMap] leaves them grey.
const IgnoredClass uint8 = 255

// classColours are the colours of the first classes: a dark one first, since class 0 is often the background, then those of Okabe and Ito, which
// colour-blind people can tell apart.
var classColours = []color.RGBA{
	{0x28, 0x28, 0x32, 0xFF}, {0xE6, 0x9F, 0x00, 0xFF}, {0x56, 0xB4, 0xE9, 0xFF}, {0x00, 0x9E, 0x73, 0xFF}, {0xF0, 0xE4, 0x42, 0xFF}, {0x00, 0x72, 0xB2, 0xFF},
	{0xD5, 0x5E, 0x00, 0xFF}, {0xCC, 0x79, 0xA7, 0xFF},
}

// ClassColour is the colour of a class in maps and legends. From the ninth class on, colours are harder to tell apart: hues are as far apart as possible,
// at three lightnesses.
func ClassColour(class uint8) color.RGBA {
	switch {
	case class == IgnoredClass:
		return color.RGBA{0xB4, 0xB4, 0xB4, 0xFF}
	case int(class) < len(classColours):
		return classColours[class]
	}
	hue := math.Mod(float64(class)*(math.Sqrt(5)-1)/2, 1)
	lightness := []float64{0.45, 0.65, 0.3}[class%3]
	channel := func(offset float64) uint8 {
		at := math.Mod(offset+12*hue, 12)
		return uint8(255*(lightness-0.6*min(lightness, 1-lightness)*max(-1, min(at-3, 9-at, 1))) + 0.5)
	}
	return color.RGBA{channel(0), channel(8), channel(4), 0xFF}
}

// ClassMap paints classes in their colours, row by row with width pixels per row.
func ClassMap(classes []uint8, width int) image.Image {
	picture := image.NewRGBA(image.Rect(0, 0, width, len(classes)/width))
	for p, class := range classes {
		picture.SetRGBA(p%width, p/width, ClassColour(class))
	}
	return picture
}
