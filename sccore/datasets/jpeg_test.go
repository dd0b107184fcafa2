package datasets

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"slices"
	"testing"
)

// TestDecodersAgree holds the build's decoder to the standard library's: the same part of the picture at the same place, and nearly its colours. It says
// something with -tags turbo alone.
func TestDecodersAgree(t *testing.T) {
	photo := image.NewRGBA(image.Rect(0, 0, 301, 200))
	for i := range 301 * 200 {
		x, y := float64(i%301), float64(i/301)
		wave := func(phase float64) uint8 { return uint8(128 + 100*math.Sin(phase+x/9)*math.Cos(phase+y/7)) }
		photo.SetRGBA(i%301, i/301, color.RGBA{wave(0), wave(1), wave(2), 255})
	}
	var buffer bytes.Buffer
	if err := jpeg.Encode(&buffer, photo, &jpeg.Options{Quality: 90}); err != nil {
		t.Fatal(err)
	}
	plain := buffer.Bytes()
	for _, orientation := range []uint16{1, 6} {
		file := slices.Concat(plain[:2], exifSegment(binary.BigEndian, orientation), plain[2:])
		decoded, err := jpeg.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		lossless := encodePNG(t, upright(opaque(decoded, decoded.Bounds()), orientationOf(file)))
		for _, size := range []int{512, 301, 151, 100, 60, 17} {
			got, want := make([]uint8, size*size*3), make([]uint8, size*size*3)
			whole, err := decodeWhole(file, got, size)
			if err != nil {
				t.Fatal(err)
			}
			if turned, err := decodeWhole(lossless, want, size); err != nil || turned != whole {
				t.Fatalf("orientation %d at %d: %v, want %v, %v", orientation, size, whole, turned, err)
			}
			sum := 0
			for i := range got {
				sum += max(int(got[i])-int(want[i]), int(want[i])-int(got[i]))
			}
			if mean := float64(sum) / float64(3*whole.Height*whole.Width); mean > 3 {
				t.Errorf("orientation %d at %d: off by %.2f on average", orientation, size, mean)
			}
		}
	}
}
