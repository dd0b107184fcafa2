package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	_ "image/jpeg" // Registers the formats that decode reads.
	_ "image/png"
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
	square := upright(opaque(picture, centreSquare(picture.Bounds())), orientationOf(file))
	pixels := make([]uint8, size*size*3)
	Bicubic.resample(pixels, size, square, Size{size, size}, image.Rect(0, 0, size, size))
	return pixels, nil
}

// decodeWhole reads the whole image, as decode does, into the top left corner of size×size RGB pixels and returns its height and width
// there. It shrinks the image if its longer side exceeds size. The remaining pixels become black.
func decodeWhole(file []byte, pixels []uint8, size int) (height, width int, err error) {
	picture, full, err := storedAtLeast(file, size)
	if err != nil {
		return 0, 0, err
	}
	o := orientationOf(file)
	if width, height = full.X, full.Y; o.transposes() {
		width, height = height, width
	}
	from := Size{height, width}
	to := fitted(from, size)
	height, width = to.Height, to.Width
	whole := upright(opaque(picture, picture.Bounds()), o)
	factor := 1
	for from.Width > factor*whole.Rect.Dx() {
		factor *= 2
	}
	Bicubic.resampleShrunk(pixels, size, whole, from, factor, to, image.Rect(0, 0, width, height))
	for y := range height {
		clear(pixels[3*(y*size+width) : 3*(y+1)*size])
	}
	clear(pixels[3*height*size:])
	return height, width, nil
}

// fitted is the size of an image that is shrunk if its longer side exceeds size.
func fitted(full Size, size int) Size {
	longer := max(full.Width, full.Height)
	if longer <= size {
		return full
	}
	shrunk := func(length int) int { return max(1, (length*size+longer/2)/longer) }
	return Size{shrunk(full.Height), shrunk(full.Width)}
}

// stored decodes a JPEG or PNG as it is stored, after checking the size in its header.
func stored(file []byte) (image.Image, error) {
	picture, _, err := storedAtLeast(file, 0)
	return picture, err
}

// storedAtLeast is stored of an image whose longer side will be shrunk to the given length, if it is longer; 0 for none. The picture may be shrunk already,
// by JPEG's own means. full is its size in the file.
func storedAtLeast(file []byte, longest int) (picture image.Image, full image.Point, err error) {
	config, format, err := image.DecodeConfig(bytes.NewReader(file))
	if errors.Is(err, image.ErrFormat) {
		return nil, full, errors.New("is neither JPEG nor PNG")
	} else if err != nil {
		return nil, full, fmt.Errorf("damaged header: %w", err)
	}
	if config.Width < 1 || config.Height < 1 || config.Width > maxDecodedPixels/config.Height {
		return nil, full, fmt.Errorf("header says %d×%d pixels, want 1 to %d in all", config.Width, config.Height, maxDecodedPixels)
	}
	if longer, shorter := max(config.Width, config.Height), min(config.Width, config.Height); longer > maxSide || longer > maxAspect*shorter {
		return nil, full, fmt.Errorf("header says %d×%d pixels, want sides of at most %d pixels, one at most %d times the other", config.Width, config.Height, maxSide, maxAspect)
	}
	full = image.Pt(config.Width, config.Height)
	if format == "jpeg" {
		if picture := scaledJPEG(file, longest); picture != nil {
			return picture, full, nil
		}
	}
	picture, _, err = image.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, full, fmt.Errorf("damaged %s: %w", format, err)
	}
	return picture, full, nil
}

// upright turns a picture of the given orientation upright. One that is upright is not copied.
func upright(picture *image.RGBA, o orientation) *image.RGBA {
	if o == 1 {
		return picture
	}
	storedWidth, storedHeight := picture.Rect.Dx(), picture.Rect.Dy()
	frame := image.Rect(0, 0, storedWidth, storedHeight)
	if o.transposes() {
		frame.Max = image.Pt(storedHeight, storedWidth)
	}
	turned := image.NewRGBA(frame)
	for y := range frame.Max.Y {
		for x := range frame.Max.X {
			at := picture.PixOffset(o.stored(x, y, storedWidth, storedHeight))
			copy(turned.Pix[turned.PixOffset(x, y):][:4], picture.Pix[at:])
		}
	}
	return turned
}

// rgb returns the RGB pixels of a picture whose rectangle begins at 0, row-major.
func rgb(picture *image.RGBA) []uint8 {
	pixels := make([]uint8, 0, len(picture.Pix)/4*3)
	for at := 0; at < len(picture.Pix); at += 4 {
		pixels = append(pixels, picture.Pix[at:at+3]...)
	}
	return pixels
}

// centreSquare returns the largest central square. It commutes with the eight orientations up to half a pixel.
func centreSquare(r image.Rectangle) image.Rectangle {
	side := min(r.Dx(), r.Dy())
	corner := r.Min.Add(image.Pt((r.Dx()-side)/2, (r.Dy()-side)/2))
	return image.Rectangle{corner, corner.Add(image.Pt(side, side))}
}

// opaque returns a part of a picture without its transparency. It copies unless that is the whole of an RGBA picture.
func opaque(picture image.Image, part image.Rectangle) *image.RGBA {
	if whole, ok := picture.(*image.RGBA); ok && part == whole.Rect && part.Min == (image.Point{}) {
		return whole
	}
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
