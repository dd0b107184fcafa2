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
	picture, err := stored(file)
	if err != nil {
		return nil, err
	}
	pixels := make([]uint8, size*size*3)
	writeUpright(pixels, size, resized(opaque(picture, centreSquare(picture.Bounds())), size, size), orientationOf(file))
	return pixels, nil
}

// decodeWhole reads all of an image as decode does, with its longer side shrunk to side pixels if it is longer, into the top left corner
// of a canvas of side×side RGB pixels, and returns its height and width there. The rest of the canvas becomes black.
func decodeWhole(file []byte, canvas []uint8, side int) (height, width int, err error) {
	picture, err := stored(file)
	if err != nil {
		return 0, 0, err
	}
	bounds := picture.Bounds()
	width, height = bounds.Dx(), bounds.Dy()
	if longer := max(width, height); longer > side {
		shrunk := func(length int) int { return max(1, (length*side+longer/2)/longer) }
		width, height = shrunk(width), shrunk(height)
	}
	clear(canvas)
	held := orientationOf(file)
	writeUpright(canvas, side, resized(opaque(picture, bounds), width, height), held)
	if held.transposes() {
		width, height = height, width
	}
	return height, width, nil
}

// stored decodes a JPEG or PNG as it is stored, after a look at what its header asks for.
func stored(file []byte) (image.Image, error) {
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
	return picture, nil
}

// resized resamples a picture unless it has that size.
func resized(picture *image.RGBA, width, height int) *image.RGBA {
	if picture.Rect.Dx() == width && picture.Rect.Dy() == height {
		return picture
	}
	small := image.NewRGBA(image.Rect(0, 0, width, height))
	draw.CatmullRom.Scale(small, small.Rect, picture, picture.Rect, draw.Src, nil)
	return small
}

// writeUpright writes a picture that is stored in an orientation into RGB pixels with rows of the given stride in pixels.
func writeUpright(pixels []uint8, stride int, picture *image.RGBA, held orientation) {
	storedWidth, storedHeight := picture.Rect.Dx(), picture.Rect.Dy()
	width, height := storedWidth, storedHeight
	if held.transposes() {
		width, height = height, width
	}
	for y := range height {
		for x := range width {
			at := picture.PixOffset(held.stored(x, y, storedWidth, storedHeight))
			copy(pixels[3*(y*stride+x):][:3], picture.Pix[at:at+3])
		}
	}
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
