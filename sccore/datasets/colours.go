package datasets

import (
	"image"
	"image/color"
)

// Colours returns the colours that masks are drawn in: those of the dataset's authors, by class, or else the ones that PASCAL VOC numbers its objects with.
// Entries without a class are black, and entry [Ignore] is VOC's colour of borders. It has 256 entries, so that a mask drawn with it is a PNG in VOC's format.
func (s *Segmentation) Colours() color.Palette {
	colours := s.colours
	if colours == nil {
		colours = vocColours(0, len(s.Classes))
	}
	palette := make(color.Palette, 256)
	for i := range palette {
		palette[i] = color.RGBA{A: 255}
	}
	for i, c := range colours {
		palette[i] = color.RGBA{uint8(c >> 16), uint8(c >> 8), uint8(c), 255}
	}
	palette[Ignore] = color.RGBA{224, 224, 192, 255}
	return palette
}

// Draw returns a mask, [height, width] of classes or [Ignore], in the dataset's colours. The picture shares the mask's memory.
func (s *Segmentation) Draw(mask []uint8, height, width int) *image.Paletted {
	return &image.Paletted{Pix: mask[:height*width], Stride: width, Rect: image.Rect(0, 0, width, height), Palette: s.Colours()}
}

// vocColours returns VOC's colours of numbers, 0xRRGGBB. The bits of a number, from the lowest, go to red, green and blue in turn, and fill each from its
// highest bit.
func vocColours(first, count int) []uint32 {
	colours := make([]uint32, count)
	for i := range colours {
		for bit := range 8 {
			colours[i] |= uint32((first+i)>>bit&1) << (7 - bit/3 + 8*(2-bit%3))
		}
	}
	return colours
}
