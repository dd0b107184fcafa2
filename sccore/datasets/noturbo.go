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
	width, kept := 3*len(columns.first), rows.most()
	wide, done := make([]uint8, kept*width), 0
	sums := make([]uint64, (width+3)/4*2)
	for y := range rows.first {
		first, end, weights := rows.of(y)
		for done = max(done, first); done < end; done++ {
			alongRow(wide[done%kept*width:][:width], picture.Pix[done*picture.Stride:], columns)
		}
		line := out[3*y*stride:][:width]
		if len(weights) == 1 { // The weight is 1.
			copy(line, wide[first%kept*width:])
			continue
		}
		for i := range sums {
			sums[i] = halves
		}
		for k, w := range weights {
			addRow(sums, wide[(first+k)%kept*width:][:width], w)
		}
		for i := range line {
			low, high := unpack(sums[i/2])
			line[i] = toByte(low)
			if i%2 == 1 {
				line[i] = toByte(high)
			}
		}
	}
}

// alongRow resamples a row of RGBA pixels to RGB. Two sums share 64 bits, which halves the number of products.
func alongRow(out, row []uint8, columns taps) {
	for x := range columns.first {
		first, end, weights := columns.of(x)
		to, from := out[3*x:][:3], row[4*first:4*end]
		if len(weights) == 1 { // The weight is 1.
			copy(to, from)
			continue
		}
		redGreen, blue := halves, half
		for _, w := range weights {
			pixel := binary.LittleEndian.Uint32(from)
			from = from[4:]
			redGreen += uint64(w) * (uint64(pixel&0xff) | uint64(pixel&0xff00)<<24)
			blue += w * int32(pixel>>16&0xff)
		}
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
