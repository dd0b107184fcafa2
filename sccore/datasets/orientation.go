package datasets

import (
	"bytes"
	"encoding/binary"
)

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
