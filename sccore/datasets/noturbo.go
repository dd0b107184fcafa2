//go:build !turbo || !cgo

package datasets

import (
	"encoding/binary"
	"image"
)

// JPEGDecoder names what decodes JPEG files, for records: decoders round colours differently.
const JPEGDecoder = "image/jpeg"

// scaledJPEG leaves JPEG files to the standard library, which has no scaled decoding.
func scaledJPEG([]byte, int) *image.RGBA { return nil }

// resampleBy resizes a picture; see [Interpolation.resample].
func resampleBy(columns, rows taps, out []uint8, stride int, picture *image.RGBA) {
	// The rows that a row of the result needs are all that is kept of the first pass.
	width, kept := 3*len(columns.first), rows.count
	wide, done := make([]uint8, kept*width), 0
	sums := make([]uint64, (width+3)/4*2)
	for y := range rows.first {
		first := int(rows.first[y])
		for done = max(done, first); done < first+kept; done++ {
			alongRow(wide[done%kept*width:][:width], picture.Pix[done*picture.Stride:], columns)
		}
		line := out[3*y*stride:][:width]
		if kept == 1 { // The height stays.
			copy(line, wide)
			continue
		}
		for i := range sums {
			sums[i] = halves
		}
		for k, w := range rows.weights[y*kept : (y+1)*kept] {
			addRow(sums, wide[(first+k)%kept*width:][:width], w)
		}
		for i := range line {
			low, high := unpack(sums[i/2])
			if line[i] = toByte(low); i%2 == 1 {
				line[i] = toByte(high)
			}
		}
	}
}

// alongRow resamples a row of RGBA pixels to RGB. Two sums share 64 bits, which halves the number of products.
func alongRow(out, row []uint8, columns taps) {
	weights := columns.weights
	for x, first := range columns.first {
		to, from := out[3*x:][:3], row[4*first:][:4*columns.count]
		if columns.count == 1 { // The width stays.
			copy(to, from)
			continue
		}
		redGreen, blue := halves, half
		for _, w := range weights[:columns.count] {
			pixel := binary.LittleEndian.Uint32(from)
			from = from[4:]
			redGreen += uint64(w) * (uint64(pixel&0xff) | uint64(pixel&0xff00)<<24)
			blue += w * int32(pixel>>16&0xff)
		}
		weights = weights[columns.count:]
		red, green := unpack(redGreen)
		to[0], to[1], to[2] = toByte(red), toByte(green), toByte(blue)
	}
}

// addRow adds a row of bytes times a weight to sums, of which two share 64 bits.
func addRow(sums []uint64, row []uint8, weight int32) {
	w := uint64(weight)
	for ; len(row) >= 4 && len(sums) >= 2; row, sums = row[4:], sums[2:] {
		four := uint64(binary.LittleEndian.Uint32(row))
		sums[0] += w * (four&0xff | four&0xff00<<24)
		sums[1] += w * (four>>16&0xff | four&0xff000000<<8)
	}
	for i, value := range row {
		sums[i/2] += w * (uint64(value) << (32 * (i % 2)))
	}
}

// halves are two sums of [half] in the lower and in the upper 32 bits.
const halves = uint64(half) | uint64(half)<<32

// unpack returns the signed sums in the lower and in the upper 32 bits. A negative lower sum has borrowed from the upper one.
func unpack(sums uint64) (low, high int32) {
	low = int32(sums)
	return low, int32((sums - uint64(low)) >> 32)
}

func toByte(sum int32) uint8 {
	if v := sum >> fixedPoint; uint32(v) < 256 {
		return uint8(v)
	}
	return uint8(^(sum >> 31)) // 0 below, 255 above.
}
