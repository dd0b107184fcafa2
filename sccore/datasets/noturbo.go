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
	sums := make([]int32, width)
	for y := range rows.first {
		first := int(rows.first[y])
		for done = max(done, first); done < first+kept; done++ {
			alongRow(wide[done%kept*width:][:width], picture.Pix[done*picture.Stride:], columns)
		}
		for i := range sums {
			sums[i] = half
		}
		for k, w := range rows.weights[y*kept : (y+1)*kept] {
			row := wide[(first+k)%kept*width:][:len(sums)]
			for i := range sums {
				sums[i] += w * int32(row[i])
			}
		}
		for i, sum := range sums {
			out[3*y*stride+i] = toByte(sum)
		}
	}
}

// alongRow resamples a row of RGBA pixels to RGB.
func alongRow(out, row []uint8, columns taps) {
	weights := columns.weights
	for x, first := range columns.first {
		red, green, blue := half, half, half
		from := row[4*first:]
		for _, w := range weights[:columns.count] {
			pixel := binary.LittleEndian.Uint32(from)
			from = from[4:]
			red += w * int32(pixel&0xff)
			green += w * int32(pixel>>8&0xff)
			blue += w * int32(pixel>>16&0xff)
		}
		weights = weights[columns.count:]
		to := out[3*x:][:3]
		to[0], to[1], to[2] = toByte(red), toByte(green), toByte(blue)
	}
}

func toByte(sum int32) uint8 { return uint8(min(max(sum>>fixedPoint, 0), 255)) }
