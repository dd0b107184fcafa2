package datasets

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	_ "image/png" // Registers the format.
	"io"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
)

// maxDecodedPixels bounds the size that an image's header may claim: 268 million pixels, above the 200 million of phones. One of that size takes 2 GB.
const maxDecodedPixels = 1 << 28

// maxSide and maxAspect bound the sides that a header may claim: JPEG's own limit, and how many times one side may be as long as the other. A picture of
// one row of millions of pixels takes gigabytes to resample.
const maxSide, maxAspect = 1<<16 - 1, 100

// decode reads a JPEG or PNG of any colour model into size×size RGB pixels, row-major: the largest central square, turned upright by its
// EXIF orientation, and resampled with the bicubic Catmull-Rom kernel, antialiased when shrinking. An image that already has this size
// keeps its exact pixels. As in PIL's conversion to RGB, transparency is ignored and 16-bit channels keep their high byte.
func decode(file []byte, size int) (_ []uint8, err error) {
	defer try.Handle(&err)
	picture := try.E1(stored(file))
	square := upright(opaque(picture, centreSquare(picture.Bounds())), orientationOf(file))
	pixels := make([]uint8, size*size*3)
	Bicubic.resample(pixels, size, square, Size{size, size}, image.Rect(0, 0, size, size))
	return pixels, nil
}

// decodeWhole reads the whole image, as decode does, into the top left corner of size×size RGB pixels and returns its height and width
// there. It shrinks the image if its longer side exceeds size. The remaining pixels become black.
func decodeWhole(file []byte, pixels []uint8, size int) (_ Size, err error) {
	defer try.Handle(&err)
	picture, full := try.E2(storedAtLeast(file, size))
	o := orientationOf(file)
	from := lo.Ternary(o.transposes(), Size{full.X, full.Y}, Size{full.Y, full.X})
	to := fitted(from, size)
	whole := upright(opaque(picture, picture.Bounds()), o)
	factor := 1
	for from.Width > factor*whole.Rect.Dx() {
		factor *= 2
	}
	Bicubic.resampleShrunk(pixels, size, whole, from, factor, to, image.Rect(0, 0, to.Width, to.Height))
	for y := range to.Height {
		clear(pixels[3*(y*size+to.Width) : 3*(y+1)*size])
	}
	clear(pixels[3*to.Height*size:])
	return to, nil
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
	unsupported := errors.As(err, new(jpeg.UnsupportedError))
	switch {
	case errors.Is(err, image.ErrFormat):
		return nil, full, errors.New("is neither JPEG nor PNG")
	case unsupported:
		format = "jpeg"
		config.Width, config.Height = jpegSize(file)
	case err != nil:
		return nil, full, fmt.Errorf("damaged header: %w", err)
	}
	if config.Width < 1 || config.Height < 1 || config.Width > maxDecodedPixels/config.Height {
		return nil, full, fmt.Errorf("header says %d×%d pixels, want 1 to %d in all", config.Width, config.Height, maxDecodedPixels)
	}
	if longer, shorter := max(config.Width, config.Height), min(config.Width, config.Height); longer > maxSide || longer > maxAspect*shorter {
		return nil, full, fmt.Errorf("header says %d×%d pixels, want sides of at most %d pixels, one at most %d times the other",
			config.Width, config.Height, maxSide, maxAspect)
	}
	full = image.Pt(config.Width, config.Height)
	if format == "jpeg" {
		if picture := scaledJPEG(file, longest); picture != nil {
			return picture, full, nil
		}
	}
	picture, _, err = image.Decode(bytes.NewReader(file))
	if odd, ok := errors.AsType[jpeg.UnsupportedError](err); ok && strings.Contains(string(odd), "Adobe") {
		picture, err = jpeg.Decode(bytes.NewReader(slices.Concat(file[:2], adobe, file[2:])))
	} else if format == "png" && errors.Is(err, io.ErrUnexpectedEOF) {
		whole := pngSignature // All pixels may be there, without the end.
		for _, content := range pngChunks(file) {
			whole += 12 + len(content)
		}
		picture, _, err = image.Decode(bytes.NewReader(slices.Concat(file[:whole], iend)))
	}
	switch {
	case errors.As(err, new(jpeg.UnsupportedError)):
		return nil, full, fmt.Errorf("is a JPEG of a kind that image/jpeg does not read (%w): save it anew, or build semcon with -tags turbo", err)
	case err != nil:
		return nil, full, fmt.Errorf("damaged %s: %w", format, err)
	}
	return picture, full, nil
}

// adobe is the segment that says that four components are inverted CMYK, which a JPEG without it is taken for, as libjpeg and PIL do.
var adobe = []byte("\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00")

// iend is the chunk that ends a PNG.
var iend = []byte("\x00\x00\x00\x00IEND\xae\x42\x60\x82")

// RGB returns the RGB pixels of a picture whose rectangle begins at 0, row-major.
func RGB(picture *image.RGBA) []uint8 {
	pixels := make([]uint8, 0, len(picture.Pix)/4*3)
	for at := 0; at < len(picture.Pix); at += 4 {
		pixels = append(pixels, picture.Pix[at:at+3]...)
	}
	return pixels
}

// Mirror reverses a row of RGB pixels.
func Mirror(row []uint8) {
	slices.Reverse(row) // Now the colours are reversed too.
	for i := 0; i < len(row); i += 3 {
		row[i], row[i+2] = row[i+2], row[i]
	}
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

// ReadPhoto reads a JPEG or PNG at its full size, turned upright by its EXIF orientation. It has no mask. The error names the file.
func ReadPhoto(path string) (*SegmentedImage, error) { return readPixels(path, orientationOf) }

// ReadStored reads the pixels of an image as they are stored. Annotations belong to these: the EXIF orientation does not apply. The error names the file.
func ReadStored(path string) (*SegmentedImage, error) {
	return readPixels(path, func([]byte) orientation { return 1 })
}

func readPixels(path string, turn func(file []byte) orientation) (*SegmentedImage, error) {
	return loadPath(path, func(file []byte) (_ *SegmentedImage, err error) {
		defer try.Handle(&err)
		picture := try.E1(stored(file))
		turned := upright(opaque(picture, picture.Bounds()), turn(file))
		return &SegmentedImage{Name: path, Height: turned.Rect.Dy(), Width: turned.Rect.Dx(), Pixels: RGB(turned)}, nil
	})
}

// Ignore is the class of pixels that training and metrics leave out: unannotated pixels and void borders.
const Ignore uint8 = 255

// ids holds the numbers in an annotation file, row-major.
type ids struct {
	height, width int
	of            []uint32
}

// decodeIDs reads a mask: a PNG with a palette or in grey, of 1 to 16 bits.
func decodeIDs(file []byte) (_ ids, err error) {
	defer try.Handle(&err)
	picture := try.E1(storedMask(file))
	const depthAt, coloursAt, alpha = 24, 25, 4 // Positions in the header, and the bit of the colour type that says that there is alpha.
	depth, grey := file[depthAt], file[coloursAt]&^alpha == 0
	spread := uint32(1) // The decoder spreads fewer than 8 bits over all 256 greys.
	if grey && depth < 8 {
		spread = 255 / (1<<depth - 1)
	}
	id := func(pixel []uint8) uint32 {
		if depth == 16 { // The high byte first.
			return uint32(pixel[0])<<8 | uint32(pixel[1])
		}
		return uint32(pixel[0]) / spread
	}
	switch p := picture.(type) {
	case *image.Paletted:
		return idsOf(p.Rect, p.Pix, p.Stride, 1, id), nil
	case *image.Gray:
		return idsOf(p.Rect, p.Pix, p.Stride, 1, id), nil
	case *image.Gray16:
		return idsOf(p.Rect, p.Pix, p.Stride, 2, id), nil
	case *image.NRGBA: // Grey with alpha, or with a transparent grey, which is a number like the others.
		if grey {
			return idsOf(p.Rect, p.Pix, p.Stride, 4, id), nil
		}
	case *image.NRGBA64:
		if grey {
			return idsOf(p.Rect, p.Pix, p.Stride, 8, id), nil
		}
	}
	return ids{}, errors.New("is a colour PNG, want class ids in grey or with a palette")
}

// decodeSegments reads a panoptic mask: an RGB PNG whose pixels are segment ids, red + 256·green + 65536·blue.
func decodeSegments(file []byte) (ids, error) {
	picture, err := storedMask(file)
	if p, ok := picture.(*image.RGBA); ok {
		return idsOf(p.Rect, p.Pix, p.Stride, 4, func(pixel []uint8) uint32 {
			return uint32(pixel[0]) | uint32(pixel[1])<<8 | uint32(pixel[2])<<16
		}), nil
	}
	return ids{}, cmp.Or(err, errors.New("is not an RGB PNG of segment ids"))
}

// idsOf reads the number of each pixel, which takes so many bytes.
func idsOf(bounds image.Rectangle, pixels []uint8, stride, bytes int, id func(pixel []uint8) uint32) ids {
	out := ids{bounds.Dy(), bounds.Dx(), make([]uint32, 0, bounds.Dx()*bounds.Dy())}
	for y := range out.height { // Without a division for each pixel.
		for x := range out.width {
			out.of = append(out.of, id(pixels[y*stride+x*bytes:]))
		}
	}
	return out
}

// storedMask decodes a PNG. It refuses lossy formats, which change ids.
func storedMask(file []byte) (image.Image, error) {
	if !bytes.HasPrefix(file, []byte("\x89PNG")) {
		return nil, errors.New("is not a PNG")
	}
	return stored(file)
}

// classes maps ids to classes. The error for an unknown id names the pixel.
func (m ids) classes(of classOf) ([]uint8, error) {
	out := make([]uint8, len(m.of))
	for p, id := range m.of {
		class, known := of(id)
		if !known {
			return nil, fmt.Errorf("pixel (%d, %d) has id %d, which the dataset does not have", p%m.width, p/m.width, id)
		}
		out[p] = class
	}
	return out, nil
}
