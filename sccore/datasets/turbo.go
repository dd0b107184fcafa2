//go:build turbo && cgo

package datasets

// #cgo pkg-config: libturbojpeg
// #cgo CFLAGS: -O3
// #include <stdint.h>
// #include <turbojpeg.h>
//
// int semcon_resample(uint8_t *out, long out_stride, const uint8_t *in, long in_stride,
//	const int32_t *x_first, const int32_t *x_weights, int x_count, int width,
//	const int32_t *y_first, const int32_t *y_weights, int y_count, int height);
import "C"

import (
	"image"
	"unsafe"
)

// JPEGDecoder names what decodes JPEG files, for records: decoders round colours differently.
const JPEGDecoder = "libjpeg-turbo"

// scaledJPEG decodes a JPEG at the smallest of 1, 1/2, 1/4 and 1/8 of its size at which the longer side has at least the given number of pixels; 0 for its
// whole size. Other eighths are slower than the whole size. It returns nil if libjpeg-turbo does not like the file, which the standard library then judges.
func scaledJPEG(file []byte, longer int) *image.RGBA {
	decoder := C.tjInitDecompress()
	if decoder == nil {
		return nil
	}
	defer C.tjDestroy(decoder)
	from, length := (*C.uchar)(unsafe.SliceData(file)), C.ulong(len(file))
	var width, height, subsampling, colours C.int
	if C.tjDecompressHeader3(decoder, from, length, &width, &height, &subsampling, &colours) != 0 {
		return nil
	}
	eighths := C.int(8)
	scaled := func(side C.int) C.int { return (side*eighths + 7) / 8 }
	for longer > 0 && eighths > 1 && (int(max(width, height))*int(eighths/2)+7)/8 >= longer {
		eighths /= 2
	}
	picture := image.NewRGBA(image.Rect(0, 0, int(scaled(width)), int(scaled(height))))
	to := (*C.uchar)(unsafe.SliceData(picture.Pix))
	if C.tjDecompress2(decoder, from, length, to, scaled(width), 0, scaled(height), C.TJPF_RGBX, 0) != 0 {
		return nil
	}
	return picture
}

// resampleBy resizes a picture; see [Interpolation.resample]. C compilers have vector instructions, which Go's lacks, and this takes as long as decoding.
func resampleBy(columns, rows taps, out []uint8, stride int, picture *image.RGBA) {
	_ = out[3*((len(rows.first)-1)*stride+len(columns.first))-1] // The only write that is out of range if any is.
	numbers := func(of []int32) *C.int32_t { return (*C.int32_t)(unsafe.SliceData(of)) }
	if C.semcon_resample((*C.uint8_t)(unsafe.SliceData(out)), C.long(3*stride), (*C.uint8_t)(unsafe.SliceData(picture.Pix)), C.long(picture.Stride),
		numbers(columns.first), numbers(columns.weights), C.int(columns.count), C.int(len(columns.first)),
		numbers(rows.first), numbers(rows.weights), C.int(rows.count), C.int(len(rows.first))) == 0 {
		panic("out of memory")
	}
}
