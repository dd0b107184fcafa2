package datasets

import (
	"bytes"
	"encoding/binary"
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
func decodeWhole(file []byte, pixels []uint8, size int) (Size, error) {
	picture, full, err := storedAtLeast(file, size)
	if err != nil {
		return Size{}, err
	}
	o, from := orientationOf(file), Size{full.Y, full.X}
	if o.transposes() {
		from = Size{full.X, full.Y}
	}
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
	if errors.Is(err, image.ErrFormat) {
		return nil, full, errors.New("is neither JPEG nor PNG")
	} else if err != nil {
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

// orientation is the value of the EXIF tag Orientation (EXIF 2.3, section 4.6.4). 1 is upright.
type orientation int

// orientationOf reads the orientation from a JPEG's EXIF segment. A file without a valid one is upright.
func orientationOf(file []byte) orientation {
	const startOfScan, app1 = 0xda, 0xe1
	if !bytes.HasPrefix(file, []byte{0xff, 0xd8}) {
		return 1
	}
	for rest := file[2:]; len(rest) >= 4 && rest[0] == 0xff && rest[1] != startOfScan; {
		if rest[1] == 0xff { // A fill byte.
			rest = rest[1:]
			continue
		}
		length := 2 + int(binary.BigEndian.Uint16(rest[2:]))
		if length < 4 || length > len(rest) {
			break
		}
		if tiff, ok := bytes.CutPrefix(rest[4:length], []byte("Exif\x00\x00")); ok && rest[1] == app1 {
			return tiffOrientation(tiff)
		}
		rest = rest[length:]
	}
	return 1
}

// tiffOrientation reads the tag from the first directory of a TIFF structure, whose entries have 12 bytes each.
func tiffOrientation(tiff []byte) orientation {
	const tagOrientation, typeShort = 0x0112, 3
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case len(tiff) < 8:
		return 1
	case tiff[0] == 'M':
		order = binary.BigEndian
	}
	start := int64(order.Uint32(tiff[4:]))
	if start+2 > int64(len(tiff)) {
		return 1
	}
	count := int(order.Uint16(tiff[start:]))
	for entry := tiff[start+2:]; count > 0 && len(entry) >= 12; entry, count = entry[12:], count-1 {
		if order.Uint16(entry) == tagOrientation && order.Uint16(entry[2:]) == typeShort {
			if value := orientation(order.Uint16(entry[8:])); 1 <= value && value <= 8 {
				return value
			}
		}
	}
	return 1
}

// transposes reports whether the orientation swaps width and height.
func (o orientation) transposes() bool { return o >= 5 }

// stored returns where the upright pixel (x, y) lies in the stored image of the given width and height.
func (o orientation) stored(x, y, width, height int) (int, int) {
	switch o {
	case 2:
		return width - 1 - x, y
	case 3:
		return width - 1 - x, height - 1 - y
	case 4:
		return x, height - 1 - y
	case 5:
		return y, x
	case 6:
		return y, height - 1 - x
	case 7:
		return width - 1 - y, height - 1 - x
	case 8:
		return width - 1 - y, x
	}
	return x, y
}

// ReadPhoto reads a JPEG or PNG at its full size, turned upright by its EXIF orientation. It has no mask. The error names the file.
func ReadPhoto(path string) (*SegmentedImage, error) { return readPixels(path, orientationOf) }

// readStored reads the pixels of an image as they are stored. Annotations belong to these: the EXIF orientation does not apply.
func readStored(path string) (*SegmentedImage, error) {
	return readPixels(path, func([]byte) orientation { return 1 })
}

func readPixels(path string, turn func(file []byte) orientation) (*SegmentedImage, error) {
	return loadPath(path, func(file []byte) (*SegmentedImage, error) {
		picture, err := stored(file)
		if err != nil {
			return nil, err
		}
		turned := upright(opaque(picture, picture.Bounds()), turn(file))
		return &SegmentedImage{Name: path, Height: turned.Rect.Dy(), Width: turned.Rect.Dx(), Pixels: rgb(turned)}, nil
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
func decodeIDs(file []byte) (ids, error) {
	picture, err := storedMask(file)
	if err != nil {
		return ids{}, err
	}
	bounds := picture.Bounds()
	out := ids{bounds.Dy(), bounds.Dx(), make([]uint32, 0, bounds.Dx()*bounds.Dy())}
	switch p := picture.(type) {
	case *image.Paletted:
		for y := range out.height {
			for _, v := range p.Pix[y*p.Stride:][:out.width] {
				out.of = append(out.of, uint32(v))
			}
		}
	case *image.Gray:
		// The decoder spreads fewer than 8 bits over all 256 greys.
		const depthAt = 24 // Position of the bit depth in the header.
		step := uint32(1)
		if depth := file[depthAt]; depth < 8 {
			step = 255 / (1<<depth - 1)
		}
		for y := range out.height {
			for _, v := range p.Pix[y*p.Stride:][:out.width] {
				out.of = append(out.of, uint32(v)/step)
			}
		}
	case *image.Gray16:
		for y := range out.height {
			for x := range out.width {
				out.of = append(out.of, uint32(p.Gray16At(x, y).Y))
			}
		}
	default:
		return ids{}, errors.New("is a colour PNG, want class ids in grey or with a palette")
	}
	return out, nil
}

// decodeSegments reads a panoptic mask: an RGB PNG whose pixels are segment ids, red + 256·green + 65536·blue.
func decodeSegments(file []byte) (ids, error) {
	picture, err := storedMask(file)
	if err != nil {
		return ids{}, err
	}
	p, ok := picture.(*image.RGBA)
	if !ok {
		return ids{}, errors.New("is not an RGB PNG of segment ids")
	}
	bounds := p.Bounds()
	out := ids{bounds.Dy(), bounds.Dx(), make([]uint32, 0, bounds.Dx()*bounds.Dy())}
	for y := range out.height {
		for x := range out.width {
			var c color.RGBA = p.RGBAAt(x, y)
			out.of = append(out.of, uint32(c.R)|uint32(c.G)<<8|uint32(c.B)<<16)
		}
	}
	return out, nil
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
