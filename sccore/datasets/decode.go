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

// maxDecodedPixels bounds the size that an image's header may claim: 67 million pixels, just above the largest image of ImageNet.
const maxDecodedPixels = 1 << 26

// maxSide and maxAspect bound the sides that a header may claim: JPEG's own limit, and how many times one side may be as long as the other. A picture of
// one row of millions of pixels takes gigabytes to resample.
const maxSide, maxAspect = 1<<16 - 1, 100

// decode reads a JPEG or PNG of any colour model into size×size RGB pixels, row-major: the largest central square, turned upright by its
// EXIF orientation, and resampled with the bicubic Catmull-Rom kernel, antialiased when shrinking. An image that already has this size
// keeps its exact pixels. As in PIL's conversion to RGB, transparency is ignored and 16-bit channels keep their high byte.
func decode(file []byte, size int) ([]uint8, error) {
	picture, err := stored(file)
	if err != nil {
		return nil, err
	}
	pixels := make([]uint8, size*size*3)
	writeUpright(pixels, size, resized(opaque(picture, centreSquare(picture.Bounds())), size, size), orientationOf(file))
	return pixels, nil
}

// decodeWhole reads the whole image, as decode does, into the top left corner of size×size RGB pixels and returns its height and width
// there. It shrinks the image if its longer side exceeds size. The remaining pixels become black.
func decodeWhole(file []byte, pixels []uint8, size int) (height, width int, err error) {
	picture, err := stored(file)
	if err != nil {
		return 0, 0, err
	}
	bounds := picture.Bounds()
	width, height = bounds.Dx(), bounds.Dy()
	if longer := max(width, height); longer > size {
		shrunk := func(length int) int { return max(1, (length*size+longer/2)/longer) }
		width, height = shrunk(width), shrunk(height)
	}
	clear(pixels)
	o := orientationOf(file)
	writeUpright(pixels, size, resized(opaque(picture, bounds), width, height), o)
	if o.transposes() {
		width, height = height, width
	}
	return height, width, nil
}

// stored decodes a JPEG or PNG as it is stored, after checking the size in its header.
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
	if longer, shorter := max(config.Width, config.Height), min(config.Width, config.Height); longer > maxSide || longer > maxAspect*shorter {
		return nil, fmt.Errorf("header says %d×%d pixels, want sides of at most %d pixels, one at most %d times the other", config.Width, config.Height, maxSide, maxAspect)
	}
	picture, _, err := image.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("damaged %s: %w", format, err)
	}
	return picture, nil
}

// resized resamples a picture unless it already has the size.
func resized(picture *image.RGBA, width, height int) *image.RGBA {
	if picture.Rect.Dx() == width && picture.Rect.Dy() == height {
		return picture
	}
	small := image.NewRGBA(image.Rect(0, 0, width, height))
	draw.CatmullRom.Scale(small, small.Rect, picture, picture.Rect, draw.Src, nil)
	return small
}

// writeUpright turns a picture of the given orientation upright and writes it into RGB pixels with rows of stride pixels.
func writeUpright(pixels []uint8, stride int, picture *image.RGBA, o orientation) {
	storedWidth, storedHeight := picture.Rect.Dx(), picture.Rect.Dy()
	width, height := storedWidth, storedHeight
	if o.transposes() {
		width, height = height, width
	}
	for y := range height {
		for x := range width {
			at := picture.PixOffset(o.stored(x, y, storedWidth, storedHeight))
			copy(pixels[3*(y*stride+x):][:3], picture.Pix[at:at+3])
		}
	}
}

// centreSquare returns the largest central square. It commutes with the eight orientations up to half a pixel.
func centreSquare(r image.Rectangle) image.Rectangle {
	side := min(r.Dx(), r.Dy())
	corner := r.Min.Add(image.Pt((r.Dx()-side)/2, (r.Dy()-side)/2))
	return image.Rectangle{corner, corner.Add(image.Pt(side, side))}
}

// opaque copies a part of a picture and drops its transparency.
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

// withoutAlpha returns the stored colour of a pixel, ignoring its transparency.
func withoutAlpha(c color.Color) color.RGBA {
	switch c := c.(type) {
	case color.NRGBA:
		return color.RGBA{c.R, c.G, c.B, 255}
	case color.NRGBA64:
		return color.RGBA{uint8(c.R >> 8), uint8(c.G >> 8), uint8(c.B >> 8), 255}
	}
	return color.RGBAModel.Convert(c).(color.RGBA)
}
