package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg" // Registers the formats that decode reads.
	_ "image/png"

	"golang.org/x/image/draw"
)

// maxDecodedPixels bounds what an image's header may ask for: 67 million, just above the largest photograph of ImageNet.
const maxDecodedPixels = 1 << 26

// decode reads a JPEG or PNG of any colour model into size×size RGB pixels, row-major: the largest square about its centre, upright by
// a JPEG's EXIF orientation, resampled with the Catmull-Rom kernel (a bicubic one) widened to the step where it shrinks. An image of
// that size keeps its pixels exactly. As where the field reads RGB, transparency is ignored and 16-bit channels keep their high byte.
func decode(file []byte, size int) ([]uint8, error) {
	config, format, err := image.DecodeConfig(bytes.NewReader(file))
	if errors.Is(err, image.ErrFormat) {
		return nil, errors.New("is neither JPEG nor PNG")
	} else if err != nil {
		return nil, fmt.Errorf("damaged header: %w", err)
	}
	if config.Width < 1 || config.Height < 1 || config.Width > maxDecodedPixels/config.Height {
		return nil, fmt.Errorf("header says %d×%d pixels, want 1 to %d in all", config.Width, config.Height, maxDecodedPixels)
	}
	picture, _, err := image.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("damaged %s: %w", format, err)
	}
	square := centreSquare(picture.Bounds())
	var small *image.RGBA
	if opaque := opaque(picture, square); opaque.Rect.Dx() == size {
		small = opaque
	} else {
		small = image.NewRGBA(image.Rect(0, 0, size, size))
		draw.CatmullRom.Scale(small, small.Rect, opaque, opaque.Rect, draw.Src, nil)
	}
	pixels := make([]uint8, 0, size*size*3)
	held := orientationOf(file)
	for y := range size {
		for x := range size {
			at := small.PixOffset(held.stored(x, y, size))
			pixels = append(pixels, small.Pix[at:at+3]...)
		}
	}
	return pixels, nil
}

// centreSquare returns the largest square about the centre, which commutes with the eight orientations to half a pixel.
func centreSquare(r image.Rectangle) image.Rectangle {
	side := min(r.Dx(), r.Dy())
	corner := r.Min.Add(image.Pt((r.Dx()-side)/2, (r.Dy()-side)/2))
	return image.Rectangle{corner, corner.Add(image.Pt(side, side))}
}

// opaque copies a part of a picture to the origin and drops its transparency.
func opaque(picture image.Image, part image.Rectangle) *image.RGBA {
	out := image.NewRGBA(image.Rect(0, 0, part.Dx(), part.Dy()))
	switch picture.(type) {
	case *image.NRGBA, *image.NRGBA64, *image.Paletted:
		for y := range part.Dy() {
			for x := range part.Dx() {
				out.SetRGBA(x, y, withoutAlpha(picture.At(part.Min.X+x, part.Min.Y+y)))
			}
		}
	default: // These have no transparency.
		draw.Draw(out, out.Rect, picture, part.Min, draw.Src)
	}
	return out
}

// withoutAlpha returns the colour that a pixel stores, however transparent it is.
func withoutAlpha(c color.Color) color.RGBA {
	switch c := c.(type) {
	case color.NRGBA:
		return color.RGBA{c.R, c.G, c.B, 255}
	case color.NRGBA64:
		return color.RGBA{uint8(c.R >> 8), uint8(c.G >> 8), uint8(c.B >> 8), 255}
	}
	return color.RGBAModel.Convert(c).(color.RGBA)
}
