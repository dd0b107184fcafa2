package datasets

import (
	"bytes"
	"encoding/binary"
	"image"
	"iter"
)

// orientation is the value of the EXIF tag Orientation (EXIF 2.3, section 4.6.4). 1 is upright.
type orientation int

// orientationOf reads the orientation from the EXIF data of a JPEG or PNG. A file without a valid one is upright.
func orientationOf(file []byte) orientation {
	const app1 = 0xe1
	for marker, content := range jpegSegments(file) {
		if tiff, ok := bytes.CutPrefix(content, []byte("Exif\x00\x00")); ok && marker == app1 {
			return tiffOrientation(tiff)
		}
	}
	for name, content := range pngChunks(file) {
		if name == "eXIf" {
			return tiffOrientation(content)
		}
	}
	return 1
}

// jpegSegments yields the segments before the pixels of a JPEG; none for another file.
func jpegSegments(file []byte) iter.Seq2[byte, []byte] {
	return func(yield func(marker byte, content []byte) bool) {
		const startOfScan = 0xda
		if !bytes.HasPrefix(file, []byte{0xff, 0xd8}) {
			return
		}
		for rest := file[2:]; len(rest) >= 4 && rest[0] == 0xff && rest[1] != startOfScan; {
			if rest[1] == 0xff { // A fill byte.
				rest = rest[1:]
				continue
			}
			length := 2 + int(binary.BigEndian.Uint16(rest[2:]))
			if length < 4 || length > len(rest) || !yield(rest[1], rest[4:length]) {
				return
			}
			rest = rest[length:]
		}
	}
}

// pngSignature is the number of bytes before the first chunk of a PNG.
const pngSignature = 8

// pngChunks yields the whole chunks of a PNG; none for another file. A chunk has 12 more bytes: its length, its name, a checksum.
func pngChunks(file []byte) iter.Seq2[string, []byte] {
	return func(yield func(name string, content []byte) bool) {
		if !bytes.HasPrefix(file, []byte("\x89PNG")) || len(file) < pngSignature {
			return
		}
		for rest := file[pngSignature:]; len(rest) >= 12; {
			length := int64(binary.BigEndian.Uint32(rest))
			if length > int64(len(rest)-12) || !yield(string(rest[4:8]), rest[8:8+length]) {
				return
			}
			rest = rest[12+length:]
		}
	}
}

// jpegSize reads the size from the header of a frame, for files that image/jpeg does not read.
func jpegSize(file []byte) (width, height int) {
	for marker, content := range jpegSegments(file) {
		ofFrame := 0xc0 <= marker && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc // The three are tables and a reserved marker.
		if ofFrame && len(content) >= 5 {
			return int(binary.BigEndian.Uint16(content[3:])), int(binary.BigEndian.Uint16(content[1:]))
		}
	}
	return 0, 0
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

// The orientations, as bits, in which rows and columns of the stored image count from its end.
const fromRight, fromBottom = 1<<2 | 1<<3 | 1<<7 | 1<<8, 1<<3 | 1<<4 | 1<<6 | 1<<7

// stored returns where the upright pixel (x, y) lies in the stored image of the given width and height.
func (o orientation) stored(x, y, width, height int) (int, int) {
	if o.transposes() {
		x, y = y, x
	}
	if fromRight>>o&1 == 1 {
		x = width - 1 - x
	}
	if fromBottom>>o&1 == 1 {
		y = height - 1 - y
	}
	return x, y
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
